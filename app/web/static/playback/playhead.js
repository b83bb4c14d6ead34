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

// Seeks within the video; returns the new time in seconds.
export function seek(player, time) {
  const within = Math.min(Math.max(0, player.data.duration_s - 0.01), Math.max(0, time));
  player.video.time = within;
  return within;
}
