// The time axis that all lanes share: its view, and curves and marks over it.

import { countUpTo, frameAt, timeOf } from "../state/data.js";

export const GUTTER = 150;
export const MARGIN = 14;
const POINTS_PER_STROKE = 16; // points of a line: a path of a thousand takes four times as long as its pieces

// Minimum and maximum of a growing series over blocks of 4, 16, 64, ... values.
class Envelope {
  constructor() { Object.assign(this, {levels: [], length: 0}); }

  // Extends the blocks to the current length. Reads only new values.
  extend(values) {
    let [lows, highs] = [values, values];
    for (let number = 0, size = 4; size <= values.length; number += 1, size *= 4) {
      const {low, high} = this.levels[number] ??= {low: [], high: []};
      low.length = high.length = Math.min(low.length, Math.floor(this.length / size)); // the last block may have been part
      for (let block = low.length; block < lows.length / 4; block += 1) {
        let [least, greatest] = [Infinity, -Infinity];
        for (let at = 4 * block; at < Math.min(lows.length, 4 * block + 4); at += 1) {
          if (lows[at] < least) least = lows[at];
          if (highs[at] > greatest) greatest = highs[at];
        }
        low.push(least);
        high.push(greatest);
      }
      [lows, highs] = [low, high];
    }
    this.length = values.length;
    return this;
  }

  // Minima and maxima of blocks of at most `most` values, and the size of a block.
  blocks(values, most) {
    let number = -1;
    while (4 ** (number + 2) <= most && number + 1 < this.levels.length) number += 1;
    return number < 0 ? {low: values, high: values, size: 1} : {...this.levels[number], size: 4 ** (number + 1)};
  }
}

const envelopes = new WeakMap(); // of the series of each run that is drawn

function envelopeOf(data, name) {
  if (!envelopes.has(data)) envelopes.set(data, {});
  return (envelopes.get(data)[name] ??= new Envelope()).extend(data[name]);
}

export class Axis {
  constructor() { this.view = {start: 0, end: 1}; }

  get inner() { return Math.max(1, this.width - GUTTER - MARGIN); }
  x(time) { return GUTTER + (time - this.view.start) / (this.view.end - this.view.start) * this.inner; }
  time(x) { return this.view.start + (x - GUTTER) / this.inner * (this.view.end - this.view.start); }

  paintMarks(pen, data, frames, mark, colour) {
    pen.fillStyle = pen.strokeStyle = colour;
    const [first, last] = [frameAt(data, this.view.start), frameAt(data, this.view.end)];
    let before = -1;
    for (let number = countUpTo(frames, first - 1); number < frames.length && frames[number] <= last; number += 1) {
      const x = this.x(timeOf(data, frames[number]));
      if (x - before < 1) continue; // the difference is below one pixel
      before = x;
      mark(x, frames[number]);
    }
  }

  // Draws a series over time; where a pixel has many values, their minimum and maximum.
  paintCurve(pen, data, name, y) {
    const values = data[name];
    const first = Math.max(0, frameAt(data, this.view.start) - 1);
    const last = Math.min(values.length - 1, frameAt(data, this.view.end) + 1);
    if (last - first > 2 * this.inner) return this.paintColumns(pen, data, name, y, first, last);
    pen.beginPath();
    if (last === first) pen.arc(this.x(data.times[first]), y(values[first]), 1.5, 0, 7);
    for (let frame = first; frame <= last; frame += 1) {
      pen.lineTo(this.x(data.times[frame]), y(values[frame]));
      if ((frame - first) % POINTS_PER_STROKE !== POINTS_PER_STROKE - 1) continue;
      pen.stroke();
      pen.beginPath();
      pen.moveTo(this.x(data.times[frame]), y(values[frame]));
    }
    pen.stroke();
  }

  paintColumns(pen, data, name, y, first, last) {
    pen.fillStyle = pen.strokeStyle;
    const {low: lows, high: highs, size} = envelopeOf(data, name).blocks(data[name], (last - first) / this.inner / 2);
    let block = Math.floor(first / size), column = Math.round(this.x(data.times[block * size])), low = lows[block], high = highs[block];
    for (; block * size <= last; block += 1) {
      const at = Math.round(this.x(data.times[block * size])), [least, greatest] = [lows[block], highs[block]];
      if (at !== column) {
        pen.fillRect(column, y(high) - 0.7, 1, y(low) - y(high) + 1.4);
        column = at;
        [low, high] = [Math.min(least, high), Math.max(greatest, low)]; // joins the column before
      }
      if (least < low) low = least;
      if (greatest > high) high = greatest;
    }
    pen.fillRect(column, y(high) - 0.7, 1, y(low) - y(high) + 1.4);
  }
}
