// Fetches the waveform of the video that is shown, once for each video.

import { layout } from "../timeline/chart.js";
import { withTimeout } from "../state/increments.js";

// Shows the waveform of the current video as soon as the server has measured it; without it there is no lane.
export async function updateSound(player) {
  const source = player.video.video?.currentSrc ?? "";
  if (player.server?.listen && player.sound?.source !== source) {
    player.sound = { source, per_s: 1, peaks: [], times: [] };
    const name = decodeURIComponent(source.split("file=")[1] ?? "");
    const reply = name && (await withTimeout(player.server.listen({ name })).catch(() => null));
    if (player.sound.source !== source) return;
    if (reply) {
      const peaks = Uint8Array.from(atob(reply.peaks), (byte) => byte.charCodeAt(0));
      Object.assign(player.sound, {
        per_s: reply.per_s,
        peaks,
        times: Float64Array.from(peaks, (_, n) => n / reply.per_s),
      });
    }
  }
  if (!player.data || !player.sound || player.data.sound === player.sound) return;
  const isDrawn = player.data.sound?.peaks.length || player.sound.peaks.length;
  player.data.sound = player.sound;
  if (isDrawn) layout(player);
}
