// The time axis that all lanes share: its view, and curves and marks over it.

import { countUpTo, frameAt, timeOf } from "../state/data.js";
import { framesInView, isDense, visitColumns } from "./envelope.js";

export const GUTTER = 150;
export const MARGIN = 14;
const POINTS_PER_STROKE = 16; // points of a line: a path of a thousand takes four times as long as its pieces

export class Axis {
  constructor() {
    this.view = { start: 0, end: 1 };
    this.gutter = GUTTER; // width of the labels
  }

  get inner() {
    return Math.max(1, this.width - this.gutter - MARGIN);
  }
  x(time) {
    return this.gutter + ((time - this.view.start) / (this.view.end - this.view.start)) * this.inner;
  }
  time(x) {
    return this.view.start + ((x - this.gutter) / this.inner) * (this.view.end - this.view.start);
  }

  // The frames of a sorted list in view, without those that are less than `gap` pixels after the one before.
  visibleFrames(data, frames, gap = 1) {
    const last = frameAt(data, this.view.end),
      found = [];
    let before = -Infinity;
    for (
      let number = countUpTo(frames, frameAt(data, this.view.start) - 1);
      number < frames.length && frames[number] <= last;
      number += 1
    ) {
      const x = this.x(timeOf(data, frames[number]));
      if (x - before < gap) continue;
      before = x;
      found.push(frames[number]);
    }
    return found;
  }

  paintMarks(pen, data, frames, mark, colour) {
    pen.fillStyle = pen.strokeStyle = colour;
    for (const frame of this.visibleFrames(data, frames)) mark(this.x(timeOf(data, frame)), frame);
  }

  // Draws a series over time; where a pixel has many values, their minimum and maximum.
  paintCurve(pen, data, name, y) {
    const values = data[name],
      [first, last] = framesInView(this, data);
    if (isDense(this, first, last)) return this.paintColumns(pen, data, name, y, first, last);
    pen.beginPath();
    if (last === first) pen.arc(this.x(data.times[first]), y(values[first]), 1.5, 0, 7);
    for (let frame = first, points = 1; frame <= last; frame += 1) {
      if (Number.isNaN(values[frame])) continue; // the line joins the known values
      pen.lineTo(this.x(data.times[frame]), y(values[frame]));
      if (points++ % POINTS_PER_STROKE) continue;
      pen.stroke();
      pen.beginPath();
      pen.moveTo(this.x(data.times[frame]), y(values[frame]));
    }
    pen.stroke();
  }

  paintColumns(pen, data, name, y, first, last) {
    pen.fillStyle = pen.strokeStyle;
    let [lowBefore, highBefore] = [-Infinity, Infinity];
    visitColumns(this, data, name, first, last, (x, low, high) => {
      if (Number.isNaN(low)) return;
      const [bottom, top] = [y(Math.min(low, highBefore)), y(Math.max(high, lowBefore))]; // joins the column before
      pen.fillRect(x, top - 0.7, 1, bottom - top + 1.4);
      [lowBefore, highBefore] = [low, high];
    });
  }
}
