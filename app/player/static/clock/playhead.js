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

// Seeks within the video, also to its last frame; returns the new time in seconds.
export function seek(player, time) {
  const last = (player.data.times?.at(-1) ?? 0) + PICTURE_S;
  const within = Math.min(Math.max(last, player.data.duration_s - 0.01), Math.max(0, time));
  player.video.time = within;
  return within;
}
