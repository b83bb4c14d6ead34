// A lane: one kind of rows on the timeline. `table.js` lists the lanes; each other module of this folder defines some.

import { fitText } from "../canvas/canvas.js";
import { timeOf } from "../state/data.js";

// All fields of a lane with their defaults. Functions get the `timeline` with its scale, pen and colours, and a `row`
// with `run`, `top` and `height`. If two runs are compared, `appliesTo` and `rows` are called for the second one too.
// The pen is that of a canvas or of a figure (`export/svg_pen.js`).
const DEFAULTS = {
  kind: "", // its name
  height: 20,
  above: 0,
  gap: 0,
  below: 0, // of each row, and free space around and between its rows, in pixels
  legend: [], // its signs: pairs of a sign and the meaning
  appliesTo: (run, isSecond) => !isSecond, // and the timeline
  rows: () => [{}], // the rows for (run, timeline), each with its `label`, its own `height` or more
  paintLabel: (timeline, row) => {
    const label = (!timeline.isDetailed && !timeline.isFigure && row.plain) || row.label;
    if (label) timeline.pen.fillText(fitText(timeline.pen, label, timeline.gutter - 14), 4, row.top + row.height / 2);
  },
  paint: () => {}, // (timeline, row, settings): with the thresholds and counts that are shown
  // (timeline, row, settings): the signs in view, for the legend of a figure: a `word`, and the function that draws its
  // sign at a point, or the sign itself with its `colour`
  signs: () => [],
  // (run, counts, isSecond): its rows of a figure's data, by the columns of `export/files.js` without those of the run
  data: () => [],
  describeLabel: () => null, // (row, settings): the tooltip over the label
  describe: () => null, // (timeline, row, x, y): the tooltip at a point
  markAt: () => null, // (timeline, row, x, y): the keys of the events whose mark is at a point, and their time
  // (timeline, row, x, y): the cursor over a handle at a point, its turn, and the edge that it drags
  gripAt: () => null,
};

export function defineLane(fields) {
  return { ...DEFAULTS, ...fields };
}

const MARK_RADIUS_PX = 6;

// The item whose time is nearest to x, within the radius of a mark; null for none.
export function nearestOf(timeline, items, timeOfItem, x) {
  const apart = (item) => Math.abs(timeline.x(timeOfItem(item)) - x);
  return items.filter((item) => apart(item) < MARK_RADIUS_PX).sort((a, b) => apart(a) - apart(b))[0] ?? null;
}

export function keysAtFrame(run, turns, role, frame, isMeant = () => true) {
  const found = turns.filter((turn) => turn.role === role && turn.frame === frame && isMeant(turn));
  return { keys: found.map((turn) => turn.key).filter(Boolean), time: timeOf(run, frame) };
}
