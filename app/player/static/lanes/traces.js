// The lanes of both decisions: the probability of each frame against the threshold, which can be dragged.

import { dragThreshold } from "../playback/thresholds.js";
import { clockText, DECISIONS, frameAt, thresholdText, timeOf } from "../state/data.js";
import { conditionText, hasSignal } from "../state/policy.js";
import { shown } from "../state/state.js";
import { GUTTER, MARGIN } from "../timeline/axis.js";
import { cross, dot, fitText, line, triangle } from "../timeline/canvas.js";
import { defineLane } from "./lane.js";
import { keysAtFrame, nearestOf } from "../timeline/marks.js";

const HIT_PX = 9, GRIP_PX = 6;
const ROLES = { speak: "assistant", update: "update" };

export const traces = DECISIONS.map((name, number) => defineLane({
  kind: "trace",
  height: 56,
  below: 4,
  legend: number ? [] : [["● ▲ ✕", "on the probabilities: a decision in time (within 1 s of the reference), a false one, a missed one"]],
  appliesTo: (run) => !run.isReferenceAlone,
  rows: () => [{ label: name, name }],
  paintLabel: ({ pen, colours }, row, { thresholds, counts }) => {
    const { hits, alarms, misses } = counts[name];
    pen.fillStyle = colours[name];
    const { policy } = row.run, condition = conditionText(policy, thresholdText(thresholds[name]));
    const text = hasSignal(policy, name) ? `${name} ${condition}` : `no ${name}s: ${policy.name}`;
    pen.fillText(fitText(pen, text, GUTTER - 14), 4, row.top + 12);
    pen.fillStyle = colours.ink;
    if (!row.run.has_reference) return void pen.fillText(`${hits.length} decisions`, 4, row.top + 29);
    pen.fillText(`● ${hits.length} in time  ▲ ${alarms.length} false`, 4, row.top + 29);
    pen.fillText(`✕ ${misses.length} missed`, 4, row.top + 45);
  },
  paint: (timeline, row, { thresholds, counts }) => {
    const { run } = row, { pen, colours } = timeline, probs = run[name];
    paintProbabilities(timeline, row, thresholds[name]);
    const { hits, alarms, misses } = counts[name];
    timeline.paintMarks(pen, run, hits, (x, frame) => dot(pen, x, yOf(row, probs[frame])), run.has_reference ? colours.matched : colours[name]);
    timeline.paintMarks(pen, run, alarms, (x, frame) => triangle(pen, x, yOf(row, probs[frame])), colours.redundant);
    pen.lineWidth = 1.8;
    timeline.paintMarks(pen, run, misses, (x) => cross(pen, x, yOf(row, 0)), colours.missed);
    pen.lineWidth = 1;
  },
  describe: (timeline, { run }, x) => {
    const frame = frameAt(run, timeline.time(x));
    return run.times.length ? `${clockText(run.times[frame])}  ${name} ${run[name][frame].toFixed(3)}` : null;
  },
  markAt: (timeline, row, x, y) => {
    const { run } = row, counts = shown.counts[name], timeOfFrame = (frame) => timeOf(run, frame);
    const decided = nearestOf(timeline, [...counts.hits, ...counts.alarms], timeOfFrame, x);
    if (decided !== null && Math.abs(yOf(row, run[name][decided]) - y) < HIT_PX) return keysAtFrame(run, run.turns, ROLES[name], decided);
    const missed = nearestOf(timeline, counts.misses, timeOfFrame, x);
    return missed !== null && Math.abs(yOf(row, 0) - y) < HIT_PX ? keysAtFrame(run, run.references, ROLES[name], missed) : null;
  },
  gripAt: (timeline, row, x, y) => {
    const isThere = Math.abs(y - yOf(row, shown.thresholds[name])) < GRIP_PX;
    return isThere ? { cursor: "ns-resize", drag: (event) => dragThreshold(name, (at) => probAt(row, at), event) } : null;
  },
}));

function yOf(row, prob) { return row.top + row.height - 5 - prob * (row.height - 11); }
function probAt(row, y) { return Math.min(1, Math.max(0, (row.top + row.height - 5 - y) / (row.height - 11))); }

function paintProbabilities(timeline, row, threshold) {
  const { pen, colours, width } = timeline;
  pen.strokeStyle = colours.grid;
  for (const prob of [0, 1]) line(pen, GUTTER, yOf(row, prob), width - MARGIN, yOf(row, prob));
  pen.strokeStyle = colours[row.name];
  pen.lineWidth = 1.4;
  timeline.paintCurve(pen, row.run, row.name, (prob) => yOf(row, prob));
  const y = Math.round(yOf(row, threshold)) + 0.5;
  pen.setLineDash([5, 4]);
  line(pen, GUTTER, y, width - MARGIN, y);
  pen.setLineDash([]);
  pen.lineWidth = 1;
  pen.fillStyle = colours[row.name];
  pen.fillRect(width - MARGIN - 5, y - 4, 9, 8);
}
