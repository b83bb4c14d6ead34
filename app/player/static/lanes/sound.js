// The lane of the waveform of the video's sound, which is fetched once for each video.

import { clockText } from "../state/data.js";
import { visitColumns } from "../canvas/envelope.js";
import { defineLane } from "./lane.js";
import { withTimeout } from "../state/increments.js";
import { decodeBytes } from "../state/signals.js";

const FULL = 255;

export const sound = defineLane({
  kind: "sound",
  height: 24,
  appliesTo: (run, isSecond) => !isSecond && Boolean(run.sound?.peaks.length),
  rows: () => [{ label: "sound" }],
  paint: (timeline, { run, top, height }) => {
    const { pen, view, colours } = timeline,
      { peaks, per_s } = run.sound,
      first = Math.max(0, Math.floor(view.start * per_s)),
      last = Math.min(peaks.length - 1, Math.ceil(view.end * per_s)),
      width = Math.max(1, timeline.inner / ((view.end - view.start) * per_s));
    if (last < first) return;
    pen.fillStyle = colours.ink;
    visitColumns(timeline, run.sound, "peaks", first, last, (x, _, high) => {
      const tall = Math.max(1, (high / FULL) * (height - 2));
      pen.fillRect(x, top + (height - tall) / 2, width, tall);
    });
  },
  describe: (timeline, { run }, x) => {
    const time = timeline.time(x),
      peak = run.sound.peaks[Math.floor(time * run.sound.per_s)] ?? 0;
    return `${clockText(time)}  sound, ${peak ? `${(20 * Math.log10(peak / FULL)).toFixed(0)} dB` : "silence"}`;
  },
});

// Shows the waveform of the current video as soon as the server has measured it; without it there is no lane.
export async function updateSound(player) {
  const source = player.video.video?.currentSrc ?? "";
  if (player.server?.listen && player.sound?.source !== source) {
    player.sound = { source, per_s: 1, peaks: [], times: [] };
    const name = decodeURIComponent(source.split("file=")[1] ?? "");
    const reply = name && (await withTimeout(player.server.listen({ name })).catch(() => null));
    if (player.sound.source !== source) return;
    if (reply) {
      const peaks = decodeBytes(reply.peaks),
        times = Float64Array.from(peaks, (_, n) => n / reply.per_s);
      player.sound = { source, per_s: reply.per_s, peaks, times }; // a new one: the run may have come before the reply
    }
  }
  if (!player.data || !player.sound || player.data.sound === player.sound) return;
  const isDrawn = player.data.sound?.peaks.length || player.sound.peaks.length;
  player.data.sound = player.sound;
  if (isDrawn) player.layout();
}
