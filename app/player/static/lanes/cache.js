// The lane of the cache and the model time of each frame.

import { clockText, countUpTo, forgottenText, frameAt, modelTimeText, timeOf } from "../state/data.js";
import { line } from "../canvas/canvas.js";
import { highestInView } from "../canvas/envelope.js";
import { defineLane } from "./lane.js";

export const cache = defineLane({
  kind: "cache",
  height: 24,
  legend: [
    ["↻", "cut: the context was full and became shorter, by the context strategy of the run"],
    ["░", "frames that the context forgot at a later cut"],
  ],
  appliesTo: (run, isSecond) =>
    !isSecond && !run.isReferenceAlone && (!run.times.length || hasCache(run) || hasLatency(run)),
  rows: () => [{ label: "cache, model time" }],
  *data(run) {
    for (const [frame, time] of run.times.entries()) {
      if (run.cache[frame] > 0) yield { lane: "cache", series: "tokens", time_s: time, value: run.cache[frame] };
      if (run.latency[frame] > 0) yield { lane: "latency", series: "ms", time_s: time, value: run.latency[frame] };
    }
    for (const frame of run.refreshed) yield { lane: "cache", series: "refresh", time_s: timeOf(run, frame) };
  },
  // The model time has the axis of the visible range, as in figures.
  paintLabel: (timeline, { run, top, height }) => {
    const { pen, colours } = timeline,
      most = highestInView(timeline, run, "latency");
    if (!run.times.length || hasCache(run)) pen.fillText("cache", 4, top + height / 4);
    pen.fillStyle = colours.latency;
    const to = most ? ` to ${most < 10 ? most.toPrecision(2) : most.toFixed(0)} ms` : "";
    if (!run.times.length || hasLatency(run)) pen.fillText(`model time${to}`, 4, top + (3 * height) / 4);
  },
  paint: (timeline, { run, top, height }) => {
    const { pen, colours } = timeline,
      bottom = top + height - 2,
      full = height - 4,
      most = highestInView(timeline, run, "latency") || 1;
    paintForgotten(timeline, run, top + 1, height - 2);
    pen.strokeStyle = colours.latency;
    timeline.paintCurve(pen, run, "latency", (value) => bottom - Math.min(1, value / most) * full);
    pen.strokeStyle = colours.ink;
    if (hasCache(run)) timeline.paintCurve(pen, run, "cache", (value) => bottom - (value / run.refresh_at) * full);
    pen.setLineDash([2, 2]);
    const paintCut = (x) => {
      line(pen, x, 0, x, bottom);
      pen.fillText("↻", x + 6, top + 6);
    };
    timeline.paintMarks(pen, run, run.refreshed, paintCut, colours.ink);
    pen.setLineDash([]);
  },
  signs: (timeline, { run }) =>
    timeline.visibleFrames(run, run.refreshed).length ? [{ word: "context cut", sign: "↻" }] : [],
  describe: (timeline, { run }, x) => {
    if (!run.times.length) return null;
    const frame = frameAt(run, timeline.time(x)),
      tokens = run.cache[frame] ? `${run.cache[frame]} tokens` : "length of the context not known",
      time = modelTimeText(run.latency[frame]);
    return `${clockText(run.times[frame])}  ${tokens}, ${time}${fateText(run, frame)}`;
  },
});

// Whether a frame has a known length of the context, or a known time of the model. Imported files may lack both.
const hasCache = (run) => run.cache.some(Boolean);
const hasLatency = (run) => run.latency.some((value) => !Number.isNaN(value));

// Shades the frames of each cut, with a gap before those of the next.
function paintForgotten(timeline, run, top, height) {
  const { pen, view, colours } = timeline;
  pen.fillStyle = colours.grid;
  for (const { first_frame: first, last_frame: last } of run.forgotten) {
    if (first === null || timeOf(run, first) > view.end || timeOf(run, last + 1) < view.start) continue;
    const left = timeline.x(Math.max(view.start, timeOf(run, first))),
      right = timeline.x(Math.min(view.end, timeOf(run, last + 1)));
    pen.fillRect(left, top, Math.max(1, right - left - 1), height);
  }
}

// The cut at a frame, and the cut that dropped it.
function fateText(run, frame) {
  const cut = run.forgotten[countUpTo(run.forgotten, frame, (found) => found.frame) - 1],
    isForgotten = ({ first_frame, last_frame }) => first_frame !== null && first_frame <= frame && frame <= last_frame,
    end = run.forgotten.find(isForgotten),
    words = end ? `; forgotten at ${clockText(timeOf(run, end.frame))}` : "";
  return `${cut?.frame === frame ? `; ↻ ${forgottenText(cut)}` : ""}${words}`;
}
