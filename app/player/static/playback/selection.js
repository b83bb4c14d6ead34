// The selection: the event that keys judge, and the failure that is shown. A failure, a row of the transcript or a mark
// in a lane selects exactly its own event; otherwise the event that began last is selected.

import { reveal } from "../timeline/chart.js";
import { focusedInput, setStatus } from "../dom/dom.js";
import { referenceWord } from "../state/data.js";
import { eventTime } from "../state/layer.js";
import { currentEvent, eventByKey, isInScope, mergeOpinions, opinion } from "../events/opinions.js";
import { PICTURE_S, redrawPlayhead, seek } from "../clock/playhead.js";
import { stopText } from "../state/stops.js";

export function splitPair(player) {
  const event = currentEvent(player),
    key = event?.pair || (event?.other && event.kind !== "reference") ? event.key : event?.other;
  const turn = `${referenceWord(player.data)} turn`,
    refusal = `Only a matched pair, of the model's event and its ${turn}, can be split or joined`;
  if (!key) return setStatus(player, `${refusal}; none is selected.`);
  player.review.splits.set(key, Boolean(event.pair));
  const time = player.video.time;
  mergeOpinions(player);
  const now = eventByKey(player, event.pair ? event.key : key);
  selectEvent(player, now, time, stopIndexOf(player, now));
  const split = `Split: the model's event and its ${turn} are judged separately. S joins them.`;
  setStatus(player, event.pair ? split : "Joined: one verdict counts for both. S splits them.");
}

// Selects an event, or none, with the playhead at a time; `failure` is the number of a failure.
function selectEvent(player, event, time, failure = null) {
  if ((event?.key ?? null) !== player.review.current) focusedInput(player)?.blur(); // submits the text to its own event
  player.review.current = event?.key ?? null;
  player.stopIndex = failure;
  player.isAfterVerdict = false;
  redrawPlayhead(player);
  player.selectedTime = seek(player, time);
  reveal(player, player.selectedTime);
  player.drawReview();
}

export function stopIndexOf(player, event) {
  const number = event ? player.data.stops.findIndex((failure) => failure.key === event.key) : -1;
  return number < 0 ? null : number;
}

// Selects the event of a link at the moment of the link, which is not that of a turn that was moved, or that the user
// left.
export function goToLinked(player, { event, time }) {
  const isThere = Math.abs(eventTime(player, event) - time) < 0.5 / player.data.fps || time === 0;
  if (isThere) goToEvent(player, event);
  else selectEvent(player, event, time);
}

// Shows the failure of a selected turn once its corrections are known, if these moved it to the playhead.
export function showFailureOfMoved(player) {
  const event = currentEvent(player);
  if (!event || player.selectedTime === null || player.stopIndex !== null) return;
  if (Math.abs(eventTime(player, event) - player.selectedTime) >= 0.5 / player.data.fps) return;
  player.stopIndex = stopIndexOf(player, event);
  redrawPlayhead(player);
}

export function goToEvent(player, event, time = event && eventTime(player, event)) {
  if (!event) return;
  player.video.pause();
  selectEvent(player, event, Math.min(time + PICTURE_S, player.data.duration_s), stopIndexOf(player, event));
}

export function goToFailure(player, number) {
  const failure = player.data.stops[number];
  player.address.isStep = true;
  player.video.pause();
  selectEvent(player, eventByKey(player, failure.key), failure.time + PICTURE_S, number);
  setStatus(player, stopText(player, failure), true);
}

// Selects one of the events of a mark: the next one where several share it.
export function selectMark(player, { keys, time }) {
  goToRow(player, { key: keys[(keys.indexOf(player.review.current) + 1) % keys.length], time });
}

export function goToRow(player, { key, time }) {
  const event = eventByKey(player, key);
  player.address.isStep = true;
  setStatus(player, "");
  selectEvent(player, event, time + PICTURE_S, stopIndexOf(player, event));
  player.focus();
}

// Clears the selection when the playhead leaves it: its message and failure are removed, and the event follows the
// playhead again.
export function clearSelection(player) {
  player.selectedTime = player.stopIndex = null;
  player.lastFrame = -1;
  setStatus(player, "");
}

// The index of the current event; between two indices if the playhead is between events.
function currentIndex(player) {
  const { events, current } = player.review,
    at = events.findIndex((event) => event.key === current);
  return at >= 0 ? at : events.filter((event) => eventTime(player, event) <= player.video.time).length - 0.5;
}

export function stepEvent(player, by) {
  const at = currentIndex(player),
    isBeyond = (event, number) => by * (number - at) > 0 && isInScope(player, event);
  const next = by > 0 ? player.review.events.find(isBeyond) : player.review.events.findLast(isBeyond);
  if (!next) return setStatus(player, `No event ${by > 0 ? "after" : "before"} this one.`, true);
  player.address.isStep = true;
  goToEvent(player, next);
}

export function goToUnreviewed(player, given = "") {
  const at = currentIndex(player),
    left = player.review.events
      .map((event, number) => ({ event, number }))
      .filter(({ event }) => isInScope(player, event) && opinion(player, event.key).verdict === null);
  const next = left.find(({ number }) => number > at) ?? left[0];
  if (!next) return setStatus(player, `${given}Every event has your verdict.`, !given);
  player.address.isStep = !given;
  goToEvent(player, next.event);
  player.isAfterVerdict = given !== "";
  const stop = player.stopIndex === null ? "" : `: ${stopText(player, player.data.stops[player.stopIndex])}`;
  if (given) setStatus(player, `${given}The next one is selected${stop.replace(/\.$/, "")}.`);
}

// The first of the events of the scope that began last; null before all of them.
function latestEvent(player, time) {
  const hasBegun = (event) => isInScope(player, event) && eventTime(player, event) <= time + 1e-4,
    begun = player.review.events.filter(hasBegun);
  const latest = begun.reduce((most, event) => Math.max(most, eventTime(player, event)), -Infinity);
  return begun.find((event) => eventTime(player, event) > latest - 1e-3) ?? null;
}

// Selects the event at the playhead: it stays until another event of the scope begins.
export function followEvent(player, time) {
  if (focusedInput(player) || player.selectedTime !== null) return;
  const now = currentEvent(player),
    latest = latestEvent(player, time);
  const began = now && eventTime(player, now);
  if (now && latest && began > eventTime(player, latest) - 1e-3 && began <= time + 0.5 / player.data.fps) return;
  const key = latest?.key ?? null;
  if (key === player.review.current) return;
  player.review.current = key;
  player.drawReview();
}

// The event that keys judge, unless it is the one that follows from the time alone.
export function selectedEvent(player) {
  if (!player.data) return null;
  const { current } = player.review,
    isFollowed = current === (latestEvent(player, player.video.time)?.key ?? null);
  return player.selectedTime === null && isFollowed ? null : current;
}
