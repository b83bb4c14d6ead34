// The playhead: seeking, and when it is redrawn.

import { state, ui } from "../state/state.js";

// Draws the playhead in the next animation frame, also in a paused video.
export function requestTick() {
  if (!state.sleeping) return;
  clearTimeout(state.sleeping);
  state.sleeping = 0;
  requestAnimationFrame(ui.tick);
}

// Draws the playhead and the panel of its moment again.
export function redrawPlayhead() {
  state.lastFrame = -1;
  movePlayhead();
}

// Draws the playhead again; the panel only if its frame changes, since it takes a part of an animation frame.
export function movePlayhead() {
  state.lastTime = -1;
  requestTick();
}

// Seeks within the video; returns the new time in seconds.
export function seek(time) {
  const within = Math.min(Math.max(0, state.data.duration_s - 0.01), Math.max(0, time));
  ui.video.time = within;
  return within;
}
