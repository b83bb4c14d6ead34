// The lane between the reference and the assistant: a line joins each matched pair.

import { drawnVerdict } from "../state/data.js";
import { line } from "../timeline/canvas.js";
import { defineLane } from "./lane.js";

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
