// The scale of a signal in its row: values to pixels of the timeline, and back. A row without `signal` is of a
// probability. That of a probability that no frame has holds marks alone, at half its height.

const ABOVE = 6,
  BELOW = 5; // free pixels over the highest value and under the lowest: marks are not cut there

const span = (row) => row.height - ABOVE - BELOW;
const ends = ({ signal }) => [signal?.low ?? 0, signal?.high ?? 1];

export const hasScale = ({ signal }) => signal?.isTraced !== false;

export function yOf(row, value) {
  if (!hasScale(row)) return row.top + row.height / 2;
  const [low, high] = ends(row);
  return row.top + row.height - BELOW - ((value - low) / (high - low)) * span(row);
}

export function valueAt(row, y) {
  const [low, high] = ends(row),
    share = (row.top + row.height - BELOW - y) / span(row);
  return low + Math.min(1, Math.max(0, share)) * (high - low);
}
