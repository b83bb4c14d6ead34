// The lanes of a reviewer: the verdicts, and the corrected reference, whose turns can be dragged to another time.

import { clockText } from "../state/data.js";
import { cross, diamond, dot, line, triangle } from "../canvas/canvas.js";
import { defineLane, nearestOf } from "./lane.js";

const HIT_PX = 8;
const SHAPES = { assistant: dot, user: triangle, update: diamond };

export const judged = defineLane({
  kind: "judged",
  height: 13,
  appliesTo: (run, isSecond) => !isSecond && run.isReviewing,
  rows: () => [{ label: "judged" }],
  // A ring without a verdict, a dot with "correct", a triangle with another. Events at one place have the sign of the
  // first of these that one of them has.
  paint: (timeline, row) => {
    const { pen, colours } = timeline,
      byKind = { none: colours.reference, other: colours.mismatched, correct: colours.matched },
      ranks = Object.keys(byKind),
      kinds = new Map(), // by place in pixels
      y = row.top + 6;
    for (const { time, verdict } of row.run.judged) {
      const x = Math.round(timeline.x(time)),
        kind = verdict === null ? "none" : verdict === "correct" ? "correct" : "other";
      if (x < timeline.gutter - 8 || x > timeline.width) continue;
      if (!kinds.has(x) || ranks.indexOf(kind) < ranks.indexOf(kinds.get(x))) kinds.set(x, kind);
    }
    for (const [x, kind] of kinds) {
      pen.fillStyle = pen.strokeStyle = byKind[kind];
      if (kind === "other") triangle(pen, x, y);
      else if (kind === "correct") dot(pen, x, y);
      else {
        pen.beginPath();
        pen.arc(x, y, 2.6, 0, 7);
        pen.stroke();
      }
    }
  },
  markAt: (timeline, row, x) => {
    const { judged: events } = row.run,
      nearest = nearestOf(timeline, events, (event) => event.time, x),
      together = events.filter((event) => Math.abs(event.time - nearest?.time) < 1e-3);
    return nearest && { keys: together.map(({ key }) => key), time: nearest.time };
  },
});

export const corrected = defineLane({
  kind: "corrected",
  height: 26,
  appliesTo: (run, isSecond) => !isSecond && (run.has_reference || run.is_copied) && run.hasLayer,
  rows: () => [{ label: "corrected" }],
  // Texts above, updates below; a line leads from the time in the source.
  paint: (timeline, row) => {
    const { pen, colours } = timeline;
    const byLook = { same: colours.reference, changed: colours.active, deleted: colours.missed };
    let before = "";
    for (const turn of row.run.layer) {
      const [from, x, y] = [timeline.x(turn.name.time_s), timeline.x(turn.time), yOf(row, turn)];
      if (Math.max(x, from) < timeline.gutter - 8 || Math.min(x, from) > timeline.width) continue;
      const place = `${Math.round(x)} ${y}${turn.look}`;
      if (place === before) continue; // the difference is below one pixel
      before = place;
      pen.fillStyle = pen.strokeStyle = byLook[turn.look];
      pen.lineWidth = 1.8;
      if (turn.look === "deleted") cross(pen, x, y);
      else SHAPES[turn.role](pen, x, y);
      if (turn.isTorn) {
        pen.strokeStyle = colours.missed;
        pen.strokeRect(x - 7, y - 7, 14, 14);
      }
      if (Math.abs(from - x) > 4) line(pen, from, y, x, y);
      if (hasSpan(turn)) paintSpan(timeline, turn, y);
      pen.lineWidth = 1;
    }
  },
  describe: (timeline, row, x, y) => {
    const turn = turnAt(timeline, row, x, y);
    if (!turn) return null;
    const end = hasSpan(turn) ? ` to ${clockText(turn.end)}` : "";
    return `${clockText(turn.time)}${end}  ${turn.look === "deleted" ? "deleted: " : ""}${turn.text}`;
  },
  markAt: (timeline, row, x, y) => {
    const turn = turnAt(timeline, row, x, y);
    return turn && { keys: [turn.key], time: turn.time };
  },
  gripAt: (timeline, row, x, y) => {
    const ended = turnAt(timeline, row, x, y, (turn) => (hasSpan(turn) ? turn.end : NaN)),
      turn = ended ?? turnAt(timeline, row, x, y);
    if (ended) return { cursor: "col-resize", turn: ended, edge: "end" };
    if (!turn || turn.look === "deleted") return null;
    return { cursor: hasSpan(turn) ? "col-resize" : "ew-resize", turn, edge: "time" };
  },
});

export function hasSpan(turn) {
  return typeof turn.end === "number" && turn.look !== "deleted";
}

// A bar from the start of a reply span to a tick at its end.
function paintSpan(timeline, turn, y) {
  const [x, end] = [timeline.x(turn.time), timeline.x(turn.end)];
  line(timeline.pen, x, y, end, y);
  line(timeline.pen, end, y - 6, end, y + 6);
}

function yOf(row, turn) {
  return row.top + (turn.role === "update" ? 19 : 7);
}

// The turn at a point by a time of it; null for none.
function turnAt(timeline, row, x, y, timeOfTurn = (turn) => turn.time) {
  const apart = (turn) => Math.abs(timeline.x(timeOfTurn(turn)) - x),
    near = row.run.layer.filter((turn) => apart(turn) < HIT_PX && Math.abs(yOf(row, turn) - y) < HIT_PX);
  return near.sort((a, b) => apart(a) - apart(b))[0] ?? null;
}
