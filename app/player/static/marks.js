// Which events a mark in a lane stands for: a click on it selects them, one after the other where several share it.

const NEAR = 6; // pixels

// The keys of the events under a point, and the time that the playhead goes to; null where no event has a mark.
function markAt(x, y) {
  const row = lanes.rowAt(y);
  if (!row || row.of || x < GUTTER - 8) return null; // what a second run wrote is not judged here
  const found = MARKS[row.kind]?.(row, x, y);
  return found?.keys.length ? found : null;
}

const textMark = (row, x) => {
  const turn = row.boxes.findLast(([left, width]) => x >= left - 1 && x <= left + width + 1)?.[2];
  return turn && { keys: [turn.key].filter(Boolean), time: turn.time };
};
const MARKS = {
  user: textMark,
  reference: textMark,
  said: textMark,
  corrected: (row, x, y) => {
    const turn = lanes.layerTurn(data, row, x, y);
    return turn && { keys: [turn.key], time: turn.time };
  },
  judged: (row, x) => {
    const nearest = nearestOf(data.judged, (event) => event.time, x);
    return nearest && { keys: data.judged.filter((event) => Math.abs(event.time - nearest.time) < 1e-3).map((event) => event.key), time: nearest.time };
  },
  trace: (row, x, y) => {
    const counts = shown.counts[row.name], role = row.name === "speak" ? "assistant" : "update";
    const decided = nearestOf([...counts.hits, ...counts.alarms], (frame) => timeOf(data, frame), x);
    if (decided !== null && Math.abs(lanes.traceY(row, data[row.name][decided]) - y) < 9) return framedKeys(data.turns, role, decided);
    const missed = nearestOf(counts.misses, (frame) => timeOf(data, frame), x);
    return missed !== null && Math.abs(row.top + row.height - 5 - y) < 9 ? framedKeys(data.references, role, missed) : null;
  },
  step: (row, x, y) => {
    const isModel = !data.has_reference || !data.isReferenceAlone && y > row.top + (row.height - 3) / 2, { id } = data.steps[row.step];
    const changes = (data.bands[isModel ? "model" : "reference"][row.step] ?? []).map(([frame]) => frame).filter((frame) => frame >= 0);
    const change = nearestOf(changes, (frame) => timeOf(data, frame), x);
    const found = change !== null && framedKeys(isModel ? data.turns : data.references, "update", change, (turn) => turn.text.split("->")[0].trim() === id);
    if (found && found.keys.length) return found;
    const time = lanes.time(x), frame = frameAt(data, time), isHatched = data.differences[row.step].some(([first, end]) => frame >= first && frame < end);
    const wrong = isModel && isHatched && data.failures.find((failure) => failure.kind === "wrong state" && frame >= failure.frame && frame < failure.end);
    return wrong && { keys: [wrong.key].filter(Boolean), time };
  },
};

function nearestOf(items, timeOfItem, x) {
  const apart = (item) => Math.abs(lanes.x(timeOfItem(item)) - x);
  return items.filter((item) => apart(item) < NEAR).sort((a, b) => apart(a) - apart(b))[0] ?? null;
}

function framedKeys(turns, role, frame, isMeant = () => true) {
  const found = turns.filter((turn) => turn.role === role && turn.frame === frame && isMeant(turn));
  return { keys: found.map((turn) => turn.key).filter(Boolean), time: timeOf(data, frame) };
}

function selectMark({ keys, time }) {
  const event = eventOf(keys[(keys.indexOf(review.current) + 1) % keys.length]);
  select(event, time + 1e-3, failureOf(event));
}
