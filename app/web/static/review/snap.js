// Where a moved time of a turn goes, by the reviewer's choice: to a frame, to an onset of the sound, or nowhere.

const REACH_S = 0.5, // of an onset
  BEFORE_S = 0.1, // in which an onset is louder than the mean
  LOUDER = 2, // by this factor
  LEAST = 8; // of 255, -30 dB: noise has no onsets

// The onsets of a waveform in seconds, at least BEFORE_S apart.
export function findOnsets({ peaks, per_s }) {
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
