// Reply spans of reference turns: their ends are corrected, and a key that is held while the video plays marks a span.

import { clockText } from "../state/data.js";
import { keyOf, setStatus } from "../dom/dom.js";

const REACH_S = 0.5, // of an onset
  BEFORE_S = 0.1, // in which an onset is louder than the mean
  LOUDER = 2, // by this factor
  LEAST = 8; // of 255, -30 dB: noise has no onsets

// The onsets of a waveform in seconds, at least BEFORE_S apart.
function findOnsets({ peaks, per_s }) {
  const length = Math.max(1, Math.round(BEFORE_S * per_s)),
    found = [];
  let sum = 0,
    last = -Infinity;
  for (let n = 0; n < peaks.length; n += 1) {
    const mean = sum / length;
    if (peaks[n] >= LEAST && peaks[n] >= LOUDER * mean && n - last > length) {
      last = n;
      found.push(n / per_s);
    }
    sum += peaks[n] - (peaks[n - length] ?? 0);
  }
  return found;
}

export function onsetsOf({ sound }) {
  return sound ? (sound.onsets ??= findOnsets(sound)) : [];
}

// The time to which a moved one goes: without sound, frames take the place of onsets.
export function snapTime(player, time) {
  const how = player.find("snap").value,
    { fps } = player.data,
    onsets = how === "sound" ? onsetsOf(player.data) : [];
  if (how === "frame" || (how === "sound" && !onsets.length)) return Math.round(time * fps) / fps;
  const near = onsets.filter((onset) => Math.abs(onset - time) <= REACH_S);
  const nearest = near.sort((a, b) => Math.abs(a - time) - Math.abs(b - time))[0] ?? time;
  return Math.round(1000 * nearest) / 1000;
}

// The time one frame, or one onset of the sound, before or after a time.
export function stepTime(player, time, by) {
  const onsets = player.find("snap").value === "sound" ? onsetsOf(player.data) : [];
  const next = by > 0 ? onsets.find((onset) => onset > time + 1e-3) : onsets.findLast((onset) => onset < time - 1e-3);
  return onsets.length ? (next ?? time) : time + by / player.data.fps;
}

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

export function mountSpans(player, finish) {
  player.listen(document, "keyup", (event) => {
    if (keyOf(event) !== KEY || player.review.spanBegan === null) return;
    const [from, to] = [player.review.spanBegan, player.video.time];
    player.review.spanBegan = null;
    if (!player.data || !player.layer) return;
    if (to - from < 1 / player.data.fps)
      return setStatus(player, `Hold ${KEY} while the video plays to mark a reply span.`);
    finish(snapSpan(player, from, to));
  });
  player.listen(window, "blur", () => {
    player.review.spanBegan = null;
  });
}

// The time of a turn in the panel, in which it is typed, and the button that removes its span.
export function drawTime(player, turn) {
  const hasSpan = typeof turn.end === "number";
  for (const [name, time] of Object.entries({ when: turn.time, until: turn.end })) {
    const box = player.find(name);
    box.disabled = Boolean(turn.isDeleted);
    box.defaultValue = typeof time === "number" ? clockText(time, 3) : "";
    if (document.activeElement !== box) box.value = box.defaultValue;
  }
  player.find("until").parentElement.hidden = turn.role !== "assistant";
  player.find("instant").hidden = !hasSpan || Boolean(turn.isDeleted);
}
