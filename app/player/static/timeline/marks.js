// Hit tests for marks in the lanes: a click on a mark selects its events, one after the other if several share it.

import { GUTTER } from "./axis.js";
import { frameAt, timeOf } from "../state/data.js";
import { eventByKey } from "../review/opinions.js";
import { selectEvent, stopIndexOf } from "../playback/selection.js";
import { review, shown, state, ui } from "../state/state.js";

const MARK_RADIUS_PX = 6; // pixels

// The keys of the events at a point, and their time; null where no event has a mark.
export function markAt(x, y) {
  const row = ui.lanes.rowAt(y);
  if (!row || row.of || x < GUTTER - 8) return null; // the second run is not judged here
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
    const turn = ui.lanes.layerTurn(state.data, row, x, y);
    return turn && { keys: [turn.key], time: turn.time };
  },
  judged: (row, x) => {
    const nearest = nearestOf(state.data.judged, (event) => event.time, x);
    return nearest && { keys: state.data.judged.filter((event) => Math.abs(event.time - nearest.time) < 1e-3).map((event) => event.key), time: nearest.time };
  },
  trace: (row, x, y) => {
    const counts = shown.counts[row.name], role = row.name === "speak" ? "assistant" : "update";
    const decided = nearestOf([...counts.hits, ...counts.alarms], (frame) => timeOf(state.data, frame), x);
    if (decided !== null && Math.abs(ui.lanes.traceY(row, state.data[row.name][decided]) - y) < 9) return keysAtFrame(state.data.turns, role, decided);
    const missed = nearestOf(counts.misses, (frame) => timeOf(state.data, frame), x);
    return missed !== null && Math.abs(row.top + row.height - 5 - y) < 9 ? keysAtFrame(state.data.references, role, missed) : null;
  },
  step: (row, x, y) => {
    const isModel = !state.data.has_reference || !state.data.isReferenceAlone && y > row.top + (row.height - 3) / 2, { id } = state.data.steps[row.step];
    const changes = (state.data.bands[isModel ? "model" : "reference"][row.step] ?? []).map(([frame]) => frame).filter((frame) => frame >= 0);
    const change = nearestOf(changes, (frame) => timeOf(state.data, frame), x);
    const found = change !== null && keysAtFrame(isModel ? state.data.turns : state.data.references, "update", change, (turn) => turn.text.split("->")[0].trim() === id);
    if (found && found.keys.length) return found;
    const time = ui.lanes.time(x), frame = frameAt(state.data, time), isHatched = state.data.differences[row.step].some(([first, end]) => frame >= first && frame < end);
    const wrong = isModel && isHatched && state.data.failures.find((failure) => failure.kind === "wrong state" && frame >= failure.frame && frame < failure.end);
    return wrong && { keys: [wrong.key].filter(Boolean), time };
  },
};

function nearestOf(items, timeOfItem, x) {
  const apart = (item) => Math.abs(ui.lanes.x(timeOfItem(item)) - x);
  return items.filter((item) => apart(item) < MARK_RADIUS_PX).sort((a, b) => apart(a) - apart(b))[0] ?? null;
}

function keysAtFrame(turns, role, frame, isMeant = () => true) {
  const found = turns.filter((turn) => turn.role === role && turn.frame === frame && isMeant(turn));
  return { keys: found.map((turn) => turn.key).filter(Boolean), time: timeOf(state.data, frame) };
}

export function selectMark({ keys, time }) {
  const event = eventByKey(keys[(keys.indexOf(review.current) + 1) % keys.length]);
  selectEvent(event, time + 1e-3, stopIndexOf(event));
}
