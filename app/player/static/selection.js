// The selection: one event, which keys judge, and the failure that is shown. A failure, a row of the transcript or a mark
// in a lane selects exactly its own event; otherwise the event that began last is selected.

let held = null; // where the playhead was put for the selection, in seconds; null when it follows the playhead

function currentEvent() { return review.events.find((event) => event.key === review.current) ?? null; }
function eventOf(key) { return review.units.get(key) ?? null; }

// Where an event is, or the side of a pair that has the key.
function timeOfKey(key) {
  const unit = eventOf(key), side = unit?.pair?.key === key ? unit.pair : unit;
  return side && eventTime(side);
}

// Selects an event, or none, with the playhead at a time; `failure` is the number of a failure.
function select(event, time, failure = null) {
  if ((event?.key ?? null) !== review.current) typedBox()?.blur(); // gives what was typed to its own event
  review.current = event?.key ?? null;
  cursor = failure;
  drawAgain();
  held = seek(time);
  reveal(held);
  drawReview();
}

function failureOf(event) {
  const number = event ? data.stops.findIndex((failure) => failure.key === event.key) : -1;
  return number < 0 ? null : number;
}

function goToEvent(event, time = event && eventTime(event)) {
  if (!event) return;
  screen.pause();
  select(event, Math.min(time + 1e-3, data.duration_s), failureOf(event));
}

function goToFailure(number) {
  const failure = data.stops[number];
  screen.pause();
  select(eventOf(failure.key), failure.time + 1e-3, number);
}

function goToRow(row) {
  say("");
  const event = eventOf(row.key);
  select(event, row.time + 1e-3, failureOf(event));
  canvas.focus({ preventScroll: true });
}

// The playhead has left what was selected: the message about it and its failure are gone, and the event may follow.
function release() {
  held = cursor = null;
  lastFrame = -1;
  say("");
}

function isInScope(event) { return SCOPES[review.scope](event); }

// Where the list of events is now: at the chosen one, else at the playhead.
function place() {
  const at = review.events.findIndex((event) => event.key === review.current);
  return at >= 0 ? at : review.events.filter((event) => eventTime(event) <= screen.time).length - 0.5;
}

function stepEvent(by) {
  const at = place();
  const next = by > 0 ? review.events.find((event, number) => number > at && isInScope(event)) : review.events.findLast((event, number) => number < at && isInScope(event));
  if (!next) return say(`No event ${by > 0 ? "after" : "before"} this one.`, true);
  goToEvent(next);
}

function goToUnreviewed(given = "") {
  const at = place(), left = review.events.map((event, number) => ({ event, number })).filter(({ event }) => isInScope(event) && opinion(event.key).verdict === null);
  const next = left.find(({ number }) => number > at) ?? left[0];
  if (!next) return say(`${given}Every event has your verdict.`, !given);
  goToEvent(next.event);
  if (given) say(`${given}The next one is selected.`);
}

function giveVerdict(verdict) {
  const event = currentEvent();
  if (giveToEvent("verdict", { verdict })) goToUnreviewed(`“${verdict}”: ${nameOfEvent(event)}. `);
}

// Follows the playhead: the selected event stays until another one of the scope begins.
function followEvent(time) {
  if (typedBox() || held !== null) return;
  const begun = review.events.filter((event) => isInScope(event) && eventTime(event) <= time + 1e-4);
  const latest = begun.reduce((most, event) => Math.max(most, eventTime(event)), -Infinity);
  const now = currentEvent();
  if (now && eventTime(now) > latest - 1e-3 && eventTime(now) <= time + 0.5 / data.fps) return;
  const key = begun.find((event) => eventTime(event) > latest - 1e-3)?.key ?? null;
  if (key === review.current) return;
  review.current = key;
  drawReview();
}

// An event in words, such as “model update S3->start at 0:12.0”.
function nameOfEvent(event) {
  const text = correctedTurn(event)?.text ?? event.text, short = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return `${KIND_WORDS[event.kind] ?? ROLE_WORDS[event.role]} “${short}” at ${clockText(eventTime(event))}${event.pair ? " with its reference" : ""}`;
}

const KIND_WORDS = { generated: "model said", update: "model update", state: "wrong state of" };
const ROLE_WORDS = { update: "reference update", user: "user turn", assistant: "reference turn" };

// Draws the event that a key judges, on every tab.
function drawEvent(box, event) {
  box.hidden = !props.can_review || !data || !data.events.length;
  if (box.hidden) return;
  const keys = node("span", "ss-dim", "1–7 judge ");
  if (!event) return box.replaceChildren(keys, node("span", "", "nothing: no event is selected"));
  const turn = event.turn === null ? null : data.turns[event.turn];
  const name = node("b", "", `${clockText(eventTime(event))} ${KIND_WORDS[event.kind] ?? ROLE_WORDS[event.role]}`);
  const parts = [keys, name, " ", node("span", "", correctedTurn(event)?.text ?? event.text)];
  const found = failureOf(event);
  if (event.pair) parts.push(node("span", "ss-tag", "and its reference"));
  if (event.other) parts.push(node("span", "ss-tag", event.kind === "reference" ? "without what the model wrote" : "without its reference"));
  if (found !== null) parts.push(node("span", "ss-tag", `${signOf(data.stops[found].kind)} ${data.stops[found].kind}`));
  const given = opinion(event.key).verdict;
  if (given) parts.push(node("span", "ss-tag ss-mine", `your verdict: ${given}`));
  if (turn?.link !== null && turn?.link !== undefined && data.references[turn.link].text !== event.text) parts.push(quoted("reference", data.references[turn.link].text));
  box.replaceChildren(...parts);
}
