// The lane of the roots: a dot at each root, a tick at each consequence, and arrows from the root that is selected.

import { clockText, countText, timeOf } from "../state/data.js";
import { dot, line } from "../canvas/canvas.js";
import { defineLane, nearestOf } from "./lane.js";

const ARROW_PX = 9; // below the line that leads to a consequence

export const roots = defineLane({
  kind: "roots",
  height: 20,
  legend: [["⎇", "first mistake of a chain: once it is corrected, those under the arrows vanish"]],
  appliesTo: (run) => !run.isBlind && (run.roots?.length ?? 0) > 0,
  rows: (run, { isFigure }) => [{ label: `${run.letter ? `${run.letter} ` : ""}chains${isFigure ? "" : " ⎇"}` }],
  data: (run) => {
    const row = (series, time_s, text) => ({ lane: "roots", series, time_s, text });
    return [
      ...(run.roots ?? []).map(({ frame, words }) => row("root", timeOf(run, frame), words)),
      ...listConsequences(run).map(({ time, kind }) => row("consequence", time, kind)),
    ];
  },
  signs: (timeline) => [{ word: "first mistake", paint: dot, colour: timeline.colours.mismatched }],
  paint: (timeline, { run, top }, { root: selected }) => {
    const { pen, colours } = timeline,
      y = top + 6;
    pen.strokeStyle = colours.grid;
    pen.lineWidth = 1.5;
    for (const x of placesOf(timeline, run)) line(pen, x, y - 3, x, y + 5);
    pen.fillStyle = colours.mismatched;
    for (const { frame } of run.roots) dot(pen, timeline.x(timeOf(run, frame)), y);
    if (run.roots[selected]) paintArrows(timeline, run, selected, y);
    pen.lineWidth = 1;
  },
  describe: (timeline, { run }, x) => {
    const mark = nearestMark(timeline, run, x);
    if (!mark) return null;
    const { time, root, is_consequence: isConsequence } = mark,
      number = listConsequences(run, root).length;
    const follows = `follows from ${clockText(timeOf(run, run.roots[root].frame))}`;
    return `${clockText(time)}  ${isConsequence ? follows : `first mistake, ${countText(number, "consequence")}`}`;
  },
  markAt: (timeline, { run }, x) => {
    const mark = nearestMark(timeline, run, x);
    return mark && { keys: [mark.key].filter(Boolean), time: mark.time };
  },
});

function listConsequences(run, number) {
  return run.failures.filter(({ root, is_consequence: is }) => is && (number === undefined || root === number));
}

// The places of consequences in pixels, each once.
function placesOf(timeline, run, number) {
  return [...new Set(listConsequences(run, number).map(({ time }) => Math.round(timeline.x(time))))];
}

// Roots before consequences.
function nearestMark(timeline, run, x) {
  const own = run.failures.filter(({ root, is_consequence: is }) => root !== undefined && !is);
  return nearestOf(timeline, [...own, ...listConsequences(run)], ({ time }) => time, x);
}

// A line from a root over its consequences, with an arrow down to each.
function paintArrows(timeline, run, number, y) {
  const { pen, colours } = timeline,
    from = timeline.x(timeOf(run, run.roots[number].frame)),
    ends = placesOf(timeline, run, number);
  pen.strokeStyle = pen.fillStyle = colours.mismatched;
  line(pen, from, y, Math.max(from, ...ends), y);
  for (const x of ends) {
    line(pen, x, y, x, y + ARROW_PX - 3);
    pen.beginPath();
    pen.moveTo(x - 4, y + ARROW_PX - 3);
    pen.lineTo(x + 4, y + ARROW_PX - 3);
    pen.lineTo(x, y + ARROW_PX + 3);
    pen.fill();
  }
  pen.beginPath();
  pen.arc(from, y, 5.5, 0, 7);
  pen.stroke();
}
