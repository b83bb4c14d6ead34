// A series reduced to its minimum and maximum per column of pixels.

import { countUpTo, frameAt } from "../state/data.js";

// Minimum and maximum of a growing series over blocks of 4, 16, 64, ... values.
class Envelope {
  constructor() {
    Object.assign(this, { levels: [], length: 0 });
  }

  // Extends the blocks to the current length. Reads only new values.
  extend(values) {
    let [lows, highs] = [values, values];
    for (let number = 0, size = 4; size <= values.length; number += 1, size *= 4) {
      const { low, high } = (this.levels[number] ??= { low: [], high: [] });
      // the last block may have been part
      low.length = high.length = Math.min(low.length, Math.floor(this.length / size));
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
    return number < 0 ? { low: values, high: values, size: 1 } : { ...this.levels[number], size: 4 ** (number + 1) };
  }
}

const envelopes = new WeakMap(); // of the series of each run that is drawn

function envelopeOf(data, name) {
  if (!envelopes.has(data)) envelopes.set(data, {});
  const known = envelopes.get(data),
    isReplaced = known[name]?.values?.length === data[name].length && known[name].values !== data[name];
  if (isReplaced) delete known[name]; // the same frames with other values
  known[name] ??= new Envelope();
  known[name].values = data[name];
  return known[name].extend(data[name]);
}

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
  const last = countUpTo(data.times, axis.view.end) - 1,
    first = countUpTo(data.times, axis.view.start, (time) => time + 1e-9);
  let most = 0;
  if (first <= last)
    visitColumns(axis, data, name, first, last, (_, low, high) => {
      if (high > most) most = high;
    });
  return most;
}

// Calls `visit(x, low, high)` for each column of pixels that the frames of a series cover; both are NaN in a column
// without a known value.
export function visitColumns(axis, data, name, first, last, visit) {
  const { low: lows, high: highs, size } = envelopeOf(data, name).blocks(data[name], (last - first) / axis.inner / 2);
  let block = Math.floor(first / size),
    column = Math.round(axis.x(data.times[block * size])),
    [low, high] = [Infinity, -Infinity];
  const end = () => (low > high ? visit(column, NaN, NaN) : visit(column, low, high));
  for (; block * size <= last; block += 1) {
    const x = Math.round(axis.x(data.times[block * size]));
    if (x !== column) {
      end();
      [column, low, high] = [x, Infinity, -Infinity];
    }
    if (lows[block] < low) low = lows[block];
    if (highs[block] > high) high = highs[block];
  }
  end();
}
