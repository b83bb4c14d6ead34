// The lanes of the dialogue: user turns, reference turns, the assistant's messages, and lines that join matched pairs.

import { clockText, countUpTo, drawnVerdict, LOW_SIMILARITY, referenceWord, signOfTurn } from "../state/data.js";
import { MARGIN } from "../canvas/axis.js";
import { line, paintLines, wrapText } from "../canvas/canvas.js";
import { defineLane } from "./lane.js";

const MAX_WIDTH = 260, // of a text, in pixels
  LINE_PX = 14,
  MAX_LINES = 3; // of a text in a figure

export const user = defineTurns({
  kind: "user",
  appliesTo: (run, isSecond) => !isSecond && run.userTurns.length > 0,
  label: () => "user",
  turns: (run) => run.userTurns,
  look: (turn, colours) => [colours.user, "▹"],
  data: (run, counts, isSecond) => (isSecond ? [] : dataOf("user", run.userTurns, () => "user")),
});

export const reference = defineTurns({
  kind: "reference",
  appliesTo: (run, isSecond) => !isSecond && (run.has_reference || run.is_copied),
  label: referenceWord,
  turns: (run) => run.referenceDialogue,
  look: (turn, colours) => {
    if (turn.role === "user") return [colours.reference, "▹", true, "user turn not given"];
    return turn.is_missed ? [colours.missed, "✕", true, "missed"] : [colours.reference, "●"];
  },
  data: (run, counts, isSecond) => (isSecond ? [] : dataOf("reference", run.referenceDialogue, seriesOfReference)),
});

export const assistant = defineTurns({
  kind: "said",
  appliesTo: (run) => !run.isReferenceAlone,
  label: (run) => (run.letter ? `${run.letter} assistant` : "assistant"),
  turns: (run) => (run.progress ? [...run.responses, run.progress] : run.responses),
  look: (turn, colours) => {
    const word = turn.failure ?? (turn.is_low ? LOW_SIMILARITY : turn.verdict && "matched");
    return [colours[drawnVerdict(turn)] ?? colours.speak, signOfTurn(turn) || "●", false, word];
  },
  data: (run) => dataOf("assistant", run.responses, (turn) => turn.failure ?? turn.verdict ?? "assistant"),
});

// Between the reference and the assistant.
export const links = defineLane({
  kind: "links",
  height: 12,
  appliesTo: (run, isSecond) => !isSecond && run.has_reference && !run.isReferenceAlone,
  paint: (timeline, row) => {
    const { pen, view, colours } = timeline;
    let before = "";
    for (const turn of row.run.responses) {
      if (turn.link === null || turn.link === undefined) continue;
      const wanted = row.run.references[turn.link];
      if (Math.max(turn.time, wanted.time) < view.start || Math.min(turn.time, wanted.time) > view.end) continue;
      const colour = colours[drawnVerdict(turn)] ?? colours.ink;
      const [from, to] = [timeline.x(wanted.time) + 1, timeline.x(turn.time) + 1],
        place = `${Math.round(from)} ${Math.round(to)}${colour}`;
      if (place === before) continue; // the difference is below one pixel
      before = place;
      pen.strokeStyle = colour;
      pen.lineWidth = 1.5;
      line(pen, from, row.top - 2, to, row.top + row.height + 1);
      pen.lineWidth = 1;
    }
  },
});

function dataOf(lane, turns, seriesOf) {
  return turns.map((turn) => ({ lane, series: seriesOf(turn), time_s: turn.time, text: turn.text }));
}

function seriesOfReference(turn) {
  if (turn.role === "user") return "user not asked";
  return turn.is_missed ? "missed" : "reference";
}

// A lane of turns: its `label(run)`, `turns(run)` sorted by time, and the `look` of a turn: its colour, its sign,
// whether it is hollow, and its word in the legend of a figure. In the page a text has one
// line; in a figure the lane is as high as the longest text needs.
function defineTurns({ turns, look, label, ...fields }) {
  // a figure is of a range: a turn that begins before it is not in it
  const listed = ({ isFigure, view }, run) =>
    isFigure ? turns(run).filter(({ time }) => time >= view.start && time <= view.end) : turns(run);
  const heightOf = (timeline, run) => {
    const boxes = [...placeTexts(timeline, listed(timeline, run), look)];
    return { height: 6 + LINE_PX * Math.max(1, ...boxes.map(({ lines }) => lines.length)) };
  };
  return defineLane({
    ...fields,
    rows: (run, timeline) => [
      {
        label: label(run),
        plain: label(run) === "reference" && "should have said",
        ...(timeline.isFigure && heightOf(timeline, run)),
      },
    ],
    signs: (timeline, { run }) =>
      listed(timeline, run).map((turn) => {
        const [colour, sign, , word] = look(turn, timeline.colours);
        return { colour, sign, word };
      }),
    paint: (timeline, row) => paintTexts(timeline, row, listed(timeline, row.run), look),
    describe: (timeline, row, x) => {
      const turn = turns(row.run)[countUpTo(turns(row.run), timeline.time(x + 2), (item) => item.time) - 1];
      if (!turn || x - timeline.x(turn.time) >= MAX_WIDTH) return null;
      const end = turn.span_end === undefined ? "" : ` to ${clockText(turn.span_end)}`;
      return `${clockText(turn.time)}${end}  ${turn.text}`;
    },
    markAt: (timeline, row, x) => {
      const turn = row.boxes?.findLast(([left, width]) => x >= left - 1 && x <= left + width + 1)?.[2];
      return turn && { keys: [turn.key].filter(Boolean), time: turn.time };
    },
  });
}

// A bar at the foot of the lane for each reply span, with a tick at its end.
function paintSpans(timeline, row, turns, look) {
  const { pen } = timeline,
    foot = row.top + row.height - 3;
  for (const turn of turns) {
    if (turn.span_end === undefined || turn.span_end < timeline.view.start || turn.time > timeline.view.end) continue;
    const left = timeline.x(turn.time),
      right = timeline.x(turn.span_end);
    pen.fillStyle = look(turn, timeline.colours)[0];
    pen.fillRect(left, foot, right - left, 2);
    pen.fillRect(right - 1.5, row.top + 1, 1.5, row.height - 2);
  }
}

// Yields the box of each turn in view: its left edge, its width and its lines of text.
function* placeTexts(timeline, turns, look) {
  const { pen, isFigure } = timeline,
    first = Math.max(0, countUpTo(turns, timeline.view.start - 1e-9, (turn) => turn.time) - 1);
  let before = "";
  for (let number = first; number < turns.length && turns[number].time <= timeline.view.end; number += 1) {
    const turn = turns[number],
      [colour, glyph, isHollow] = look(turn, timeline.colours);
    const left = timeline.x(turn.time),
      place = `${Math.round(left)}${colour}`;
    if (place === before) continue; // the difference is below one pixel
    before = place;
    const next = number + 1 < turns.length ? timeline.x(turns[number + 1].time) - 2 : timeline.width - MARGIN;
    const room = Math.max(3, Math.min(next - left, MAX_WIDTH));
    const lines = room > 16 ? wrapText(pen, `${glyph} ${turn.text}`, room - 9, isFigure ? MAX_LINES : 1) : [];
    const widest = Math.max(0, ...lines.map((words) => pen.measureText(words).width));
    yield { turn, colour, isHollow, left, width: Math.min(room, lines.length ? widest + 9 : 5), lines };
  }
}

function paintTexts(timeline, row, turns, look) {
  const { pen } = timeline;
  paintSpans(timeline, row, turns, look);
  pen.textAlign = "left";
  row.boxes = []; // for hit tests: [left, width, turn]
  for (const { turn, colour, isHollow, left, width, lines } of placeTexts(timeline, turns, look)) {
    row.boxes.push([left, width, turn]);
    pen.globalAlpha = isHollow ? 0.12 : 0.22;
    pen.fillStyle = colour;
    pen.fillRect(left, row.top + 1, width, row.height - 3);
    pen.globalAlpha = 1;
    if (isHollow) {
      pen.strokeStyle = colour;
      pen.setLineDash([3, 2]);
      pen.strokeRect(left + 0.5, row.top + 1.5, width - 1, row.height - 4);
      pen.setLineDash([]);
    }
    pen.fillRect(left, row.top + 1, 2.5, row.height - 3);
    pen.fillStyle = timeline.colours.ink;
    paintLines(pen, lines, left + 6, row.top + row.height / 2, LINE_PX);
  }
}
