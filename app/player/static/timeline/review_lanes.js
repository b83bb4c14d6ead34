// The lanes of reviews: the corrected reference and the judged events.

import { GUTTER } from "./axis.js";
import { cross, diamond, dot, line, triangle } from "./canvas.js";
import { clockText } from "../state/data.js";
import { Lanes } from "./lanes.js";

export class ReviewLanes extends Lanes {
  // Turns of the corrected reference: words above, updates below; a line leads from where the source has them.
  paint_corrected(pen, row, data) {
    const colours = {same: this.colours.reference, changed: this.colours.active, deleted: this.colours.missed};
    const marks = {assistant: dot, user: triangle, update: diamond};
    let before = "";
    for (const turn of data.layer) {
      const [from, x, y] = [this.x(turn.name.time_s), this.x(turn.time), this.layerY(row, turn)];
      if (Math.max(x, from) < GUTTER - 8 || Math.min(x, from) > this.width) continue;
      const place = `${Math.round(x)} ${y}${turn.look}`;
      if (place === before) continue; // the difference is below one pixel
      before = place;
      pen.fillStyle = pen.strokeStyle = colours[turn.look];
      pen.lineWidth = 1.8;
      if (turn.look === "deleted") cross(pen, x, y); else marks[turn.role](pen, x, y);
      if (turn.isTorn) { pen.strokeStyle = this.colours.missed; pen.strokeRect(x - 7, y - 7, 14, 14); }
      if (Math.abs(from - x) > 4) line(pen, from, y, x, y);
      pen.lineWidth = 1;
    }
  }

  // Events: a ring without a verdict, a dot with "correct", a triangle with another.
  paint_judged(pen, row, data) {
    let before = "";
    for (const event of data.judged) {
      const x = this.x(event.time), y = row.top + 6, kind = event.verdict === null ? "none" : event.verdict === "correct" ? "correct" : "other";
      if (x < GUTTER - 8 || x > this.width || before === `${Math.round(x)}${kind}`) continue;
      before = `${Math.round(x)}${kind}`;
      pen.fillStyle = pen.strokeStyle = {none: this.colours.reference, correct: this.colours.matched, other: this.colours.mismatched}[kind];
      if (kind === "other") triangle(pen, x, y); else if (kind === "correct") dot(pen, x, y); else { pen.beginPath(); pen.arc(x, y, 2.6, 0, 7); pen.stroke(); }
    }
  }

  layerY(row, turn) { return row.top + (turn.role === "update" ? 19 : 7); }

  // The turn of the corrected reference at a point; null for none.
  layerTurn(data, row, x, y) {
    const apart = (turn) => Math.abs(this.x(turn.time) - x);
    const near = data.layer.filter((turn) => apart(turn) < 8 && Math.abs(this.layerY(row, turn) - y) < 8);
    return near.sort((a, b) => apart(a) - apart(b))[0] ?? null;
  }

  describe(data, x, y) {
    const row = this.rowAt(y);
    if (row?.kind !== "corrected" || x < GUTTER - 8) return super.describe(data, x, y);
    const turn = this.layerTurn(data, row, x, y);
    return turn && `${clockText(turn.time)}  ${turn.look === "deleted" ? "deleted: " : ""}${turn.text}`;
  }
}
