// The selection: the event that keys judge, and the failure that is shown. A failure, a row of the transcript or a mark
// in a lane selects exactly its own event; otherwise the event that began last is selected.

import { reveal } from "../timeline/chart.js";
import { focusedInput } from "../dom/dom.js";
import { eventTime } from "../review/layer.js";
import { currentEvent, eventByKey, isInScope, mergeOpinions, opinion } from "../review/opinions.js";
import { redrawPlayhead, seek } from "./playhead.js";
import { review, state, ui } from "../state/state.js";
import { stopText } from "./stops.js";
import { setStatus } from "../dom/status.js";

export function splitPair() {
  const event = currentEvent(),
    key = event?.pair || (event?.other && event.kind !== "reference") ? event.key : event?.other;
  if (!key)
    return setStatus(
      "Only a matched pair, of the model's event and its reference turn, can be split or joined; none is selected.",
    );
  review.splits.set(key, Boolean(event.pair));
  const time = ui.video.time;
  mergeOpinions();
  const now = eventByKey(event.pair ? event.key : key);
  selectEvent(now, time, stopIndexOf(now));
  setStatus(
    event.pair
      ? "Split: the model's event and its reference turn are judged separately. S joins them."
      : "Joined: one verdict counts for both. S splits them.",
  );
}

// Selects an event, or none, with the playhead at a time; `failure` is the number of a failure.
export function selectEvent(event, time, failure = null) {
  if ((event?.key ?? null) !== review.current) focusedInput()?.blur(); // submits the text to its own event
  review.current = event?.key ?? null;
  state.stopIndex = failure;
  state.isAfterVerdict = false;
  redrawPlayhead();
  state.selectedTime = seek(time);
  reveal(state.selectedTime);
  ui.drawReview();
}

export function stopIndexOf(event) {
  const number = event ? state.data.stops.findIndex((failure) => failure.key === event.key) : -1;
  return number < 0 ? null : number;
}

// Selects the event of a link at the moment of the link, which is not that of a turn that was moved, or that the user
// left.
export function goToLinked({ event, time }) {
  const isThere = Math.abs(eventTime(event) - time) < 0.5 / state.data.fps || time === 0;
  if (isThere) goToEvent(event);
  else selectEvent(event, time);
}

// Shows the failure of a selected turn once its corrections are known, if these moved it to the playhead.
export function showFailureOfMoved() {
  const event = currentEvent();
  if (
    !event ||
    state.selectedTime === null ||
    state.stopIndex !== null ||
    Math.abs(eventTime(event) - state.selectedTime) >= 0.5 / state.data.fps
  )
    return;
  state.stopIndex = stopIndexOf(event);
  redrawPlayhead();
}

export function goToEvent(event, time = event && eventTime(event)) {
  if (!event) return;
  ui.video.pause();
  selectEvent(event, Math.min(time + 1e-3, state.data.duration_s), stopIndexOf(event));
}

export function goToFailure(number) {
  const failure = state.data.stops[number];
  ui.video.pause();
  selectEvent(eventByKey(failure.key), failure.time + 1e-3, number);
}

// Selects one of the events of a mark: the next one where several share it.
export function selectMark({ keys, time }) {
  const event = eventByKey(keys[(keys.indexOf(review.current) + 1) % keys.length]);
  selectEvent(event, time + 1e-3, stopIndexOf(event));
}

export function goToRow(row) {
  setStatus("");
  const event = eventByKey(row.key);
  selectEvent(event, row.time + 1e-3, stopIndexOf(event));
  ui.canvas.focus({ preventScroll: true });
}

// Clears the selection when the playhead leaves it: its message and failure are removed, and the event follows the
// playhead again.
export function clearSelection() {
  state.selectedTime = state.stopIndex = null;
  state.lastFrame = -1;
  setStatus("");
}

// The index of the current event; between two indices if the playhead is between events.
function currentIndex() {
  const at = review.events.findIndex((event) => event.key === review.current);
  return at >= 0 ? at : review.events.filter((event) => eventTime(event) <= ui.video.time).length - 0.5;
}

export function stepEvent(by) {
  const at = currentIndex();
  const next =
    by > 0
      ? review.events.find((event, number) => number > at && isInScope(event))
      : review.events.findLast((event, number) => number < at && isInScope(event));
  if (!next) return setStatus(`No event ${by > 0 ? "after" : "before"} this one.`, true);
  goToEvent(next);
}

export function goToUnreviewed(given = "") {
  const at = currentIndex(),
    left = review.events
      .map((event, number) => ({ event, number }))
      .filter(({ event }) => isInScope(event) && opinion(event.key).verdict === null);
  const next = left.find(({ number }) => number > at) ?? left[0];
  if (!next) return setStatus(`${given}Every event has your verdict.`, !given);
  goToEvent(next.event);
  state.isAfterVerdict = given !== "";
  if (given)
    setStatus(`${given}The next one is selected${state.stopIndex === null ? "" : `: ${stopText(state.stopIndex)}`}.`);
}

// The first of the events of the scope that began last; null before all of them.
export function latestEvent(time) {
  const begun = review.events.filter((event) => isInScope(event) && eventTime(event) <= time + 1e-4);
  const latest = begun.reduce((most, event) => Math.max(most, eventTime(event)), -Infinity);
  return begun.find((event) => eventTime(event) > latest - 1e-3) ?? null;
}

// Selects the event at the playhead: it stays until another event of the scope begins.
export function followEvent(time) {
  if (focusedInput() || state.selectedTime !== null) return;
  const now = currentEvent(),
    latest = latestEvent(time);
  if (now && latest && eventTime(now) > eventTime(latest) - 1e-3 && eventTime(now) <= time + 0.5 / state.data.fps)
    return;
  const key = latest?.key ?? null;
  if (key === review.current) return;
  review.current = key;
  ui.drawReview();
}
