// The lanes of the dialogue: user turns, reference turns, the assistant's messages.

import { clockText, countUpTo, signOfTurn } from "../state/data.js";
import { MARGIN } from "../timeline/axis.js";
import { fitText } from "../timeline/canvas.js";
import { defineLane } from "./lane.js";

const MAX_WIDTH = 260; // of a text, in pixels

// The look of a turn by its lane: colour, sign and whether it is hollow. Figures have the same
// (app/figures/timeline/turns.py).
export const LOOKS = {
  user: (turn, colours) => [colours.user, "▹"],
  reference: (turn, colours) => {
    if (turn.role === "user") return [colours.reference, "▹", true]; // the run did not have it
    return turn.is_missed ? [colours.missed, "✕", true] : [colours.reference, "●"];
  },
  assistant: (turn, colours) => [colours[turn.verdict] ?? colours.speak, signOfTurn(turn) || "●"],
};

export const user = defineTurns({
  kind: "user",
  appliesTo: (run, isSecond) => !isSecond && run.userTurns.length > 0,
  rows: () => [{ label: "user" }],
  turns: (run) => run.userTurns,
  look: LOOKS.user,
});

export const reference = defineTurns({
  kind: "reference",
  appliesTo: (run, isSecond) => !isSecond && (run.has_reference || run.is_copied),
  rows: (run) => [{ label: run.has_reference ? "reference" : "copy" }],
  turns: (run) => run.referenceDialogue,
  look: LOOKS.reference,
});

export const assistant = defineTurns({
  kind: "said",
  appliesTo: (run) => !run.isReferenceAlone,
  rows: (run) => [{ label: run.letter ? `${run.letter} assistant` : "assistant" }],
  turns: (run) => (run.progress ? [...run.responses, run.progress] : run.responses),
  look: LOOKS.assistant,
});

// A lane of turns: `turns(run)` sorted by time, and the `look` of a turn.
function defineTurns({ turns, look, ...fields }) {
  return defineLane({
    ...fields,
    paint: (timeline, row) => paintTexts(timeline, row, turns(row.run), look),
    describe: (timeline, row, x) => {
      const turn = turns(row.run)[countUpTo(turns(row.run), timeline.time(x + 2), (item) => item.time) - 1];
      return turn && x - timeline.x(turn.time) < MAX_WIDTH ? `${spanText(turn)}  ${turn.text}` : null;
    },
    markAt: (timeline, row, x) => {
      const turn = row.boxes?.findLast(([left, width]) => x >= left - 1 && x <= left + width + 1)?.[2];
      return turn && { keys: [turn.key].filter(Boolean), time: turn.time };
    },
  });
}

function spanText(turn) {
  return turn.span_end === undefined ? clockText(turn.time) : `${clockText(turn.time)} to ${clockText(turn.span_end)}`;
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

function paintTexts(timeline, row, turns, look) {
  const { pen } = timeline;
  paintSpans(timeline, row, turns, look);
  pen.textAlign = "left";
  const first = Math.max(0, countUpTo(turns, timeline.view.start, (turn) => turn.time) - 1);
  let before = "";
  row.boxes = []; // for hit tests: [left, width, turn]
  for (let number = first; number < turns.length && turns[number].time <= timeline.view.end; number += 1) {
    const turn = turns[number],
      [colour, glyph, isHollow] = look(turn, timeline.colours);
    const left = timeline.x(turn.time),
      place = `${Math.round(left)}${colour}`;
    if (place === before) continue; // the difference is below one pixel
    before = place;
    const next = number + 1 < turns.length ? timeline.x(turns[number + 1].time) - 2 : timeline.width - MARGIN;
    const room = Math.max(3, Math.min(next - left, MAX_WIDTH));
    const words = room > 16 ? fitText(pen, `${glyph} ${turn.text}`, room - 9) : "";
    const width = words ? Math.min(room, pen.measureText(words).width + 9) : Math.min(room, 5);
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
    if (words) pen.fillText(words, left + 6, row.top + row.height / 2);
  }
}
