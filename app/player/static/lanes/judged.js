// The lane of the reviewer's verdicts.

import { GUTTER } from "../timeline/axis.js";
import { dot, triangle } from "../timeline/canvas.js";
import { defineLane } from "./lane.js";
import { nearestOf } from "../timeline/marks.js";

export const judged = defineLane({
  kind: "judged",
  height: 13,
  appliesTo: (run, isSecond) => !isSecond && run.isReviewing,
  rows: () => [{ label: "judged" }],
  // A ring without a verdict, a dot with "correct", a triangle with another.
  paint: (timeline, row) => {
    const { pen, colours } = timeline, byKind = { none: colours.reference, correct: colours.matched, other: colours.mismatched };
    let before = "";
    for (const event of row.run.judged) {
      const x = timeline.x(event.time), y = row.top + 6, kind = event.verdict === null ? "none" : event.verdict === "correct" ? "correct" : "other";
      if (x < GUTTER - 8 || x > timeline.width || before === `${Math.round(x)}${kind}`) continue;
      before = `${Math.round(x)}${kind}`;
      pen.fillStyle = pen.strokeStyle = byKind[kind];
      if (kind === "other") triangle(pen, x, y); else if (kind === "correct") dot(pen, x, y); else { pen.beginPath(); pen.arc(x, y, 2.6, 0, 7); pen.stroke(); }
    }
  },
  markAt: (timeline, row, x) => {
    const nearest = nearestOf(timeline, row.run.judged, (event) => event.time, x);
    return nearest && { keys: row.run.judged.filter((event) => Math.abs(event.time - nearest.time) < 1e-3).map((event) => event.key), time: nearest.time };
  },
});
