// The lane of the cache and the model time of each frame.

import { clockText, frameAt, modelTimeText } from "../state/data.js";
import { line } from "../timeline/canvas.js";
import { defineLane } from "./lane.js";

export const cache = defineLane({
  kind: "cache",
  height: 24,
  legend: [["↻", "refresh: the context was full and restarted from the prompt"]],
  appliesTo: (run, isSecond) => !isSecond && !run.isReferenceAlone,
  rows: () => [{ label: "cache, latency" }],
  paint: (timeline, { run, top, height }) => {
    const { pen, colours } = timeline, bottom = top + height - 2, full = height - 4;
    pen.strokeStyle = colours.latency;
    timeline.paintCurve(pen, run, "latency", (value) => bottom - Math.min(1, value / run.latency_most) * full);
    pen.strokeStyle = colours.ink;
    timeline.paintCurve(pen, run, "cache", (value) => bottom - value / run.refresh_at * full);
    pen.setLineDash([2, 2]);
    timeline.paintMarks(pen, run, run.refreshed, (x) => { line(pen, x, 0, x, bottom); pen.fillText("↻", x + 6, top + 6); }, colours.ink);
    pen.setLineDash([]);
  },
  describe: (timeline, { run }, x) => {
    const frame = frameAt(run, timeline.time(x));
    return run.times.length ? `${clockText(run.times[frame])}  ${run.cache[frame]} tokens, ${modelTimeText(run.latency[frame])}` : null;
  },
});
