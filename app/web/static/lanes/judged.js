// The lane of the reviewer's verdicts.

import { dot, triangle } from "../timeline/canvas.js";
import { defineLane } from "./lane.js";
import { nearestOf } from "../timeline/marks.js";

export const judged = defineLane({
  kind: "judged",
  height: 13,
  appliesTo: (run, isSecond) => !isSecond && run.isReviewing,
  rows: () => [{ label: "judged" }],
  // A ring without a verdict, a dot with "correct", a triangle with another. Events at one place have the sign of the
  // first of these that one of them has.
  paint: (timeline, row) => {
    const { pen, colours } = timeline,
      byKind = { none: colours.reference, correct: colours.matched, other: colours.mismatched };
    const kinds = new Map(),
      order = ["none", "other", "correct"],
      y = row.top + 6; // by place in pixels
    for (const { time, verdict } of row.run.judged) {
      const x = Math.round(timeline.x(time)),
        kind = verdict === null ? "none" : verdict === "correct" ? "correct" : "other";
      if (
        x < timeline.gutter - 8 ||
        x > timeline.width ||
        (order.indexOf(kinds.get(x)) > -1 && order.indexOf(kinds.get(x)) <= order.indexOf(kind))
      )
        continue;
      kinds.set(x, kind);
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
    const nearest = nearestOf(timeline, row.run.judged, (event) => event.time, x);
    return (
      nearest && {
        keys: row.run.judged.filter((event) => Math.abs(event.time - nearest.time) < 1e-3).map((event) => event.key),
        time: nearest.time,
      }
    );
  },
});
