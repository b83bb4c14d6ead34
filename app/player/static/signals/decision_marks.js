// The scale of a signal in its row, and the marks of decisions on it, which are painted on a canvas over the figure,
// as all lanes are: as points of Plotly they took most of a drawing.

import { timeOf } from "../state/data.js";
import { cross, dot, triangle } from "../canvas/canvas.js";

// Values to pixels of the timeline, and back. A row without `signal` is of a probability. That of a probability that no
// frame has holds marks alone, at half its height.
const ABOVE = 6,
  BELOW = 5; // free pixels over the highest value and under the lowest: marks are not cut there

const span = (row) => row.height - ABOVE - BELOW;
const ends = ({ signal }) => [signal?.low ?? 0, signal?.high ?? 1];

export const hasScale = ({ signal }) => signal?.isTraced !== false;

export function yOf(row, value) {
  if (!hasScale(row)) return row.top + row.height / 2;
  const [low, high] = ends(row);
  return row.top + row.height - BELOW - ((value - low) / (high - low)) * span(row);
}

export function valueAt(row, y) {
  const [low, high] = ends(row),
    share = (row.top + row.height - BELOW - y) / span(row);
  return low + Math.min(1, Math.max(0, share)) * (high - low);
}

const MARK_GAP_PX = 4; // a mark that is closer to the one before is left out
const MARKS = [
  { kind: "hits", label: "decision in time", colour: "matched", symbol: "circle", size: 8, shape: dot },
  {
    kind: "alarms",
    label: "unexpected decision",
    colour: "redundant",
    symbol: "triangle-up",
    size: 9,
    shape: triangle,
  },
  { kind: "misses", label: "no decision", colour: "missed", symbol: "x-thin", size: 8, shape: cross },
];

// The words are other ones than those of failures: a decision has no text that could be judged.
// The kinds of marks of a run, each with its sign as a `symbol` of Plotly and as a `shape` on a canvas.
export function marksOf(run) {
  return run.has_reference ? MARKS : [{ ...MARKS[0], label: "decisions", colour: null }];
}

export function colourOf({ colours }, { signal }, mark) {
  return colours[mark.colour ?? signal.colour];
}

// The frames of a row in view that have a mark of a kind. A signal may have no decisions, and a kind may be hidden.
export function markedFrames(timeline, { run, name, hidden }, { kind }, counts) {
  return hidden?.has(kind) ? [] : timeline.visibleFrames(run, counts[name]?.[kind] ?? [], MARK_GAP_PX);
}

// The height of a mark on the timeline; NaN where the signal is not known.
export function heightOfMark(row, { kind }, frame) {
  return yOf(row, kind === "misses" ? row.signal.low : row.run[row.signal.series][frame]);
}

// Paints the marks of rows in view with a pen that begins at the height `top`.
export function paintMarks(pen, timeline, rows, counts, top = 0) {
  const { start, end } = timeline.view;
  pen.lineWidth = 1.8;
  for (const mark of marksOf(rows[0].run)) {
    for (const row of rows) {
      pen.fillStyle = pen.strokeStyle = colourOf(timeline, row, mark);
      for (const frame of markedFrames(timeline, row, mark, counts)) {
        const time = timeOf(row.run, frame),
          y = heightOfMark(row, mark, frame);
        if (time >= start && time <= end && !Number.isNaN(y)) mark.shape(pen, timeline.x(time), y - top);
      }
    }
  }
}
