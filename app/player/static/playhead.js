// Where the playhead is put, and when it is drawn again.

import { state, ui } from "./state.js";

// What moved or changed is drawn in the next animation frame.
export function wake() {
  if (!state.sleeping) return;
  clearTimeout(state.sleeping);
  state.sleeping = 0;
  requestAnimationFrame(ui.tick);
}

export function drawAgain() {
  state.lastFrame = state.lastTime = -1;
  wake();
}

// Returns where the playhead is put, in seconds.
export function seek(time) {
  const within = Math.min(Math.max(0, state.data.duration_s - 0.01), Math.max(0, time));
  ui.video.time = within;
  return within;
}
