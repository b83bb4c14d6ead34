// The axis of time that all lanes share: what is in view, and curves and marks over it.

const GUTTER = 150, MARGIN = 14;
const STROKE = 16; // points of a line: a path of a thousand takes four times as long as its pieces

class Axis {
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
      if (x - before < 1) continue; // nothing more would be seen
      before = x;
      mark(x, frames[number]);
    }
  }

  // Draws values over time; of many within one pixel the least and the greatest.
  paintCurve(pen, data, values, y) {
    const first = Math.max(0, frameAt(data, this.view.start) - 1);
    const last = Math.min(values.length - 1, frameAt(data, this.view.end) + 1);
    if (last - first > 2 * this.inner) return this.paintColumns(pen, data, values, y, first, last);
    pen.beginPath();
    if (last === first) pen.arc(this.x(data.times[first]), y(values[first]), 1.5, 0, 7);
    for (let frame = first; frame <= last; frame += 1) {
      pen.lineTo(this.x(data.times[frame]), y(values[frame]));
      if ((frame - first) % STROKE !== STROKE - 1) continue;
      pen.stroke();
      pen.beginPath();
      pen.moveTo(this.x(data.times[frame]), y(values[frame]));
    }
    pen.stroke();
  }

  paintColumns(pen, data, values, y, first, last) {
    pen.fillStyle = pen.strokeStyle;
    let column = Math.round(this.x(data.times[first])), low = values[first], high = low;
    for (let frame = first; frame <= last; frame += 1) {
      const at = Math.round(this.x(data.times[frame])), value = values[frame];
      if (at !== column) {
        pen.fillRect(column, y(high) - 0.7, 1, y(low) - y(high) + 1.4);
        column = at;
        [low, high] = [Math.min(value, high), Math.max(value, low)]; // joins the column before
      }
      if (value < low) low = value;
      if (value > high) high = value;
    }
    pen.fillRect(column, y(high) - 0.7, 1, y(low) - y(high) + 1.4);
  }
}
