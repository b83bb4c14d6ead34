// Reply spans of reference turns: their ends are corrected, and a key that is held while the video plays marks a span.

import { clockText } from "../state/data.js";
import { find } from "../dom/dom.js";
import { layer, listeners, state, ui } from "../state/state.js";
import { setStatus } from "../dom/status.js";

const KEY = "9";
let began = null; // time at which the key was pressed, in seconds; null while it is not held

const snap = (time) => Math.round(time * state.data.fps) / state.data.fps;

// The span from one time to another on the grid of frames, at least one frame long and inside the video.
export function snapSpan(from, to) {
  const { fps, expected_frames } = state.data,
    last = expected_frames / fps;
  const start = Math.min(last - 1 / fps, Math.max(0, snap(from)));
  return { time_s: start, end_s: Math.min(last, Math.max(start + 1 / fps, snap(to))) };
}

// The first turn of the assistant whose span or instant lies in a span; undefined for none.
export function turnInside({ time_s, end_s }) {
  return layer().turns.find(
    (turn) => turn.role === "assistant" && turn.time <= end_s && (turn.end ?? turn.time) >= time_s,
  );
}

export function beginSpan() {
  if (began !== null) return;
  if (!layer()) return setStatus("There is no reference to correct.");
  began = ui.video.time;
  setStatus(`A reply span begins at ${clockText(began)}: release ${KEY} at its end.`);
}

// `finish` gets the marked span.
export function mountSpans(finish) {
  document.addEventListener(
    "keyup",
    (event) => {
      if (event.key !== KEY || began === null) return;
      const [from, to] = [began, ui.video.time];
      began = null;
      if (!state.data || !layer()) return;
      if (to - from < 1 / state.data.fps) return setStatus(`Hold ${KEY} while the video plays to mark a reply span.`);
      finish(snapSpan(from, to));
    },
    { signal: listeners.signal },
  );
  window.addEventListener(
    "blur",
    () => {
      began = null;
    },
    { signal: listeners.signal },
  );
}

// The time of a turn in the panel, and the button that removes its span.
export function drawTime(turn) {
  const hasSpan = typeof turn.end === "number";
  find("when").textContent = hasSpan
    ? `${turn.time.toFixed(2)} to ${turn.end.toFixed(2)} s`
    : `${turn.time.toFixed(2)} s`;
  find("instant").hidden = !hasSpan || Boolean(turn.isDeleted);
}
