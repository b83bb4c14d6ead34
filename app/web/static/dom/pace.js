// Drawing at a pace: soon after a request, but apart by a multiple of the time that a drawing takes.

const LEAST_MS = 100,
  MOST_MS = 1000; // from a drawing to the next one

// Returns a function that requests `draw()`, which may be asynchronous. `costsApart()` is the least time between two
// drawings, in multiples of the time of one. An urgent request does not wait for it.
export function pace(draw, costsApart) {
  let timer = 0,
    isDrawing = false,
    isRequested = false,
    due = -Infinity;
  const request = (isUrgent = false) => {
    isRequested = true;
    if (isUrgent) {
      clearTimeout(timer);
      [timer, due] = [0, -Infinity];
    }
    if (!isDrawing) timer ||= setTimeout(start, Math.max(0, due - performance.now()));
  };
  const start = async () => {
    const began = performance.now();
    [timer, isDrawing, isRequested] = [0, true, false];
    try {
      await draw();
    } finally {
      isDrawing = false;
      due = performance.now() + Math.min(MOST_MS, Math.max(LEAST_MS, costsApart() * (performance.now() - began)));
      if (isRequested) request();
    }
  };
  return request;
}
