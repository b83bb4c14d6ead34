// Reply spans of reference turns: their ends are corrected, and a key that is held while the video plays marks a span.

import { clockText } from "../state/data.js";
import { setStatus } from "../dom/status.js";
import { snapTime } from "./snap.js";

const KEY = "9";

// The span from one time to another, snapped by choice, at least one frame long and inside the video.
export function snapSpan(player, from, to) {
  const { fps, expected_frames } = player.data,
    last = expected_frames / fps;
  const start = Math.min(last - 1 / fps, Math.max(0, snapTime(player, from)));
  return { time_s: start, end_s: Math.min(last, Math.max(start + 1 / fps, snapTime(player, to))) };
}

// The first turn of the assistant whose span or instant lies in a span; undefined for none.
export function turnInside(player, { time_s, end_s }) {
  return player.layer.turns.find(
    (turn) => turn.role === "assistant" && turn.time <= end_s && (turn.end ?? turn.time) >= time_s,
  );
}

export function beginSpan(player) {
  if (player.review.spanBegan !== null) return;
  if (!player.layer) return setStatus(player, "There is no reference to correct.");
  player.review.spanBegan = player.video.time;
  setStatus(player, `A reply span begins at ${clockText(player.review.spanBegan)}: release ${KEY} at its end.`);
}

// `finish` gets the marked span.
export function mountSpans(player, finish) {
  document.addEventListener(
    "keyup",
    (event) => {
      if (event.key !== KEY || player.review.spanBegan === null) return;
      const [from, to] = [player.review.spanBegan, player.video.time];
      player.review.spanBegan = null;
      if (!player.data || !player.layer) return;
      if (to - from < 1 / player.data.fps)
        return setStatus(player, `Hold ${KEY} while the video plays to mark a reply span.`);
      finish(snapSpan(player, from, to));
    },
    { signal: player.listeners.signal },
  );
  window.addEventListener(
    "blur",
    () => {
      player.review.spanBegan = null;
    },
    { signal: player.listeners.signal },
  );
}

// The time of a turn in the panel, in which it is typed, and the button that removes its span.
export function drawTime(player, turn) {
  const hasSpan = typeof turn.end === "number";
  for (const [name, time] of [
    ["when", turn.time],
    ["until", turn.end],
  ]) {
    const box = player.find(name);
    box.disabled = Boolean(turn.isDeleted);
    box.defaultValue = typeof time === "number" ? clockText(time, 3) : "";
    if (document.activeElement !== box) box.value = box.defaultValue;
  }
  player.find("until").parentElement.hidden = turn.role !== "assistant";
  player.find("instant").hidden = !hasSpan || Boolean(turn.isDeleted);
}
