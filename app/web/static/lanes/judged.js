// The lane of the reviewer's verdicts.

import { dot, triangle } from "../timeline/canvas.js";
import { defineLane, nearestOf } from "./lane.js";

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
