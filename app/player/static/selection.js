// The selection: one event, which keys judge, and the failure that is shown. A failure, a row of the transcript or a mark
// in a lane selects exactly its own event; otherwise the event that began last is selected.

import { reveal } from "./chart.js";
import { typedBox } from "./dom.js";
import { eventTime } from "./layer.js";
import { currentEvent, eventOf, isInScope, opinion, recall } from "./opinions.js";
import { drawAgain, seek } from "./playhead.js";
import { review, state, ui } from "./state.js";
import { say } from "./status.js";

export function splitPair() {
  const event = currentEvent(), key = event?.pair || event?.other && event.kind !== "reference" ? event.key : event?.other;
  if (!key) return say("Only what the model wrote and its reference turn can be split or joined; nothing of a pair is selected.");
  review.splits.set(key, Boolean(event.pair));
  const time = ui.video.time;
  recall();
  const now = eventOf(event.pair ? event.key : key);
  select(now, time, failureOf(now));
  say(event.pair ? "Split: the model's event and its reference turn are judged separately. S joins them." : "Joined: one verdict counts for both. S splits them.");
}

// Selects an event, or none, with the playhead at a time; `failure` is the number of a failure.
export function select(event, time, failure = null) {
  if ((event?.key ?? null) !== review.current) typedBox()?.blur(); // gives what was typed to its own event
  review.current = event?.key ?? null;
  state.cursor = failure;
  drawAgain();
  state.held = seek(time);
  reveal(state.held);
  ui.drawReview();
}

export function failureOf(event) {
  const number = event ? state.data.stops.findIndex((failure) => failure.key === event.key) : -1;
  return number < 0 ? null : number;
}

export function goToEvent(event, time = event && eventTime(event)) {
  if (!event) return;
  ui.video.pause();
  select(event, Math.min(time + 1e-3, state.data.duration_s), failureOf(event));
}

export function goToFailure(number) {
  const failure = state.data.stops[number];
  ui.video.pause();
  select(eventOf(failure.key), failure.time + 1e-3, number);
}

export function goToRow(row) {
  say("");
  const event = eventOf(row.key);
  select(event, row.time + 1e-3, failureOf(event));
  ui.canvas.focus({ preventScroll: true });
}

// The playhead has left what was selected: the message about it and its failure are gone, and the event may follow.
export function release() {
  state.held = state.cursor = null;
  state.lastFrame = -1;
  say("");
}

// Where the list of events is now: at the chosen one, else at the playhead.
function place() {
  const at = review.events.findIndex((event) => event.key === review.current);
  return at >= 0 ? at : review.events.filter((event) => eventTime(event) <= ui.video.time).length - 0.5;
}

export function stepEvent(by) {
  const at = place();
  const next = by > 0 ? review.events.find((event, number) => number > at && isInScope(event)) : review.events.findLast((event, number) => number < at && isInScope(event));
  if (!next) return say(`No event ${by > 0 ? "after" : "before"} this one.`, true);
  goToEvent(next);
}

export function goToUnreviewed(given = "") {
  const at = place(), left = review.events.map((event, number) => ({ event, number })).filter(({ event }) => isInScope(event) && opinion(event.key).verdict === null);
  const next = left.find(({ number }) => number > at) ?? left[0];
  if (!next) return say(`${given}Every event has your verdict.`, !given);
  goToEvent(next.event);
  if (given) say(`${given}The next one is selected.`);
}

// Follows the playhead: the selected event stays until another one of the scope begins.
export function followEvent(time) {
  if (typedBox() || state.held !== null) return;
  const begun = review.events.filter((event) => isInScope(event) && eventTime(event) <= time + 1e-4);
  const latest = begun.reduce((most, event) => Math.max(most, eventTime(event)), -Infinity);
  const now = currentEvent();
  if (now && eventTime(now) > latest - 1e-3 && eventTime(now) <= time + 0.5 / state.data.fps) return;
  const key = begun.find((event) => eventTime(event) > latest - 1e-3)?.key ?? null;
  if (key === review.current) return;
  review.current = key;
  ui.drawReview();
}
