// The time axis that all lanes share: its view, and curves over it.

import { countUpTo, frameAt, timeOf } from "../state/data.js";

export const GUTTER = 150;
export const MARGIN = 14;

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

  // The first and the last frame of a series that a line through the view needs: one more on either side.
  framesInView(data) {
    return [
      Math.max(0, frameAt(data, this.view.start) - 1),
      Math.min(data.times.length - 1, frameAt(data, this.view.end) + 1),
    ];
  }

  // Whether the frames have more values than a line can show.
  isDense(first, last) {
    return last - first > 2 * this.inner;
  }

  // The highest value of the frames in view; 0 without one.
  highestInView(data, name) {
    const end = countUpTo(data.times, this.view.end),
      first = countUpTo(data.times, this.view.start, (time) => time + 1e-9);
    return data[name].subarray(first, end).reduce((most, value) => (value > most ? value : most), 0);
  }

  // Calls `visit(x, low, high)` for each column of pixels that the frames of a series cover; both are NaN in a column
  // without a known value.
  visitColumns(data, name, first, last, visit) {
    const { times, [name]: values } = data;
    for (let frame = first; frame <= last;) {
      const column = Math.round(this.x(times[frame])),
        end = this.time(column + 0.5);
      let [low, high] = [Infinity, -Infinity];
      do {
        if (values[frame] < low) low = values[frame];
        if (values[frame] > high) high = values[frame];
        frame += 1;
      } while (frame <= last && times[frame] < end);
      if (low > high) [low, high] = [NaN, NaN];
      visit(column, low, high);
    }
  }

  // Draws a series over time, with minimum and maximum of each column of pixels; the line joins the known values.
  paintCurve(pen, data, name, y) {
    pen.beginPath();
    this.visitColumns(data, name, ...this.framesInView(data), (x, low, high) => {
      if (Number.isNaN(low)) return;
      pen.lineTo(x, y(low));
      if (high > low) pen.lineTo(x, y(high));
    });
    pen.stroke();
  }
}
