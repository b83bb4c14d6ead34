// The playhead: seeking, and when it is redrawn.

// Draws the playhead in the next animation frame, also in a paused video.
export function requestTick(player) {
  if (!player.sleeping) return;
  clearTimeout(player.sleeping);
  player.sleeping = 0;
  requestAnimationFrame(player.tick);
}

// Draws the playhead and the panel of its moment again.
export function redrawPlayhead(player) {
  player.lastFrame = -1;
  movePlayhead(player);
}

// Draws the playhead again; the panel only if its frame changes, since it takes a part of an animation frame.
export function movePlayhead(player) {
  player.lastTime = -1;
  requestTick(player);
}

// To the picture of an instant: the model sees one that begins up to this much later (EPSILON_S of the engine).
export const PICTURE_S = 6e-4;

const APPROACH_S = 3;

// Plays the last seconds before the moment at the playhead, and stops there (`loop.js`). Until then, or until the user
// goes elsewhere, its selection, its explanation and the address stay.
export function approachMoment(player) {
  const at = player.video.time;
  player.approach = { from: at - APPROACH_S, at, selected: player.selectedTime, beganMs: performance.now() };
  seek(player, at - APPROACH_S);
  player.video.play();
}

// Seeks within the video, also to its last frame; returns the new time in seconds.
export function seek(player, time) {
  const last = (player.data.times?.at(-1) ?? 0) + PICTURE_S;
  const within = Math.min(Math.max(last, player.data.duration_s - 0.01), Math.max(0, time));
  player.video.time = within;
  return within;
}
