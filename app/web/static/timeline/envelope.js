// A series reduced to its minimum and maximum per column of pixels.

import { countUpTo, frameAt } from "../state/data.js";

// The first and the last frame of a series that a line through the view needs: one more on either side.
export function framesInView(axis, data) {
  return [
    Math.max(0, frameAt(data, axis.view.start) - 1),
    Math.min(data.times.length - 1, frameAt(data, axis.view.end) + 1),
  ];
}

// Whether the frames have more values than a line can show.
export function isDense(axis, first, last) {
  return last - first > 2 * axis.inner;
}

// The highest value of the frames in view; 0 without one.
export function highestInView(axis, data, name) {
  const end = countUpTo(data.times, axis.view.end),
    first = countUpTo(data.times, axis.view.start, (time) => time + 1e-9);
  return data[name].subarray(first, end).reduce((most, value) => (value > most ? value : most), 0);
}

// Calls `visit(x, low, high)` for each column of pixels that the frames of a series cover; both are NaN in a column
// without a known value.
export function visitColumns(axis, data, name, first, last, visit) {
  const { times, [name]: values } = data;
  for (let frame = first; frame <= last;) {
    const column = Math.round(axis.x(times[frame])),
      end = axis.time(column + 0.5);
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
