// Verdicts, tags and notes on the event under the playhead. What is given goes to the outbox, and from there to the store.

const SCOPES = {
  all: () => true,
  failures: (event) => event.kind === "state" || (event.turn !== null ? data.turns[event.turn].failure !== null : data.references[event.reference]?.is_missed),
  model: (event) => event.kind === "generated" || event.kind === "update",
  reference: (event) => event.kind === "reference",
};
const outbox = new Outbox();
const review = {
  state: null, events: [], mine: new Map(), turns: new Map(), current: null, wanted: null, scope: "all", wantsCorrected: false, // what is said, and of what
  name: nameOf(remembered("reviewer")) ?? "", isBlind: remembered("blind") === "yes", signedIn: null, // who says it
  drafts: new Map(), // what was typed and not given, for want of a name
  isAsking: false, isAgain: false, saved: "", problem: "", refusals: new Map(), timer: 0, // what became of it
};
const NOTHING_SAID = { verdict: null, tags: [], note: "" };
const TYPED = ".ss-tags, .ss-note, .ss-edited";

function reviewer() { return review.signedIn ?? review.name; }
function layer() { return review.state?.layer ?? null; }

// Brings together what the store says and what waits in the outbox: the events, and this reviewer's word on them.
function recall() {
  if (!data || !props.can_review) return drawReview();
  const added = (layer()?.turns ?? []).filter((turn) => turn.is_added).map((turn) => ({
    ...turn.name, key: turn.key, kind: "reference", time: turn.name.time_s, turn: null, reference: null,
  }));
  review.events = added.length ? [...data.events, ...added].sort((a, b) => a.time - b.time) : data.events;
  review.mine.clear();
  const who = reviewer();
  for (const [key, said] of Object.entries(review.state?.opinions ?? {})) {
    const mine = said.find((opinion) => opinion.reviewer === who);
    if (mine) review.mine.set(key, mine);
  }
  const moves = new Map();
  const waiting = outbox.all(), undone = new Set();
  for (const { kind, target } of waiting) if (kind === "undo") undone.add(target); else if (kind === "redo") undone.delete(target);
  for (const action of waiting.filter(({ action_id }) => !undone.has(action_id))) {
    if (action.correction?.time_s !== undefined) moves.set(JSON.stringify(action.correction.turn), action.correction.time_s);
    if (!action.event || action.reviewer !== who || action.video_id !== data.video_id) continue;
    const given = { verdict: { verdict: action.verdict }, tags: { tags: action.tags }, note: { note: action.note } }[action.kind];
    review.mine.set(action.event.key, { ...opinion(action.event.key), ...given, isWaiting: true });
  }
  review.turns = new Map((layer()?.turns ?? []).map((turn) => [turn.key, moves.size ? { ...turn, time: moves.get(JSON.stringify(turn.name)) ?? turn.time } : turn]));
  data.judged = review.events.map((event) => ({ time: eventTime(event), ...opinion(event.key) }));
  transcript.mark(data, opinion);
  askPaint();
  drawReview();
}

function opinion(key) { return review.mine.get(key) ?? NOTHING_SAID; }
function correctedTurn(event) { return review.turns.get(event.key) ?? null; }
function eventTime(event) { return review.turns.get(event.key)?.time ?? event.time; }
function currentEvent() { return review.events.find((event) => event.key === review.current) ?? null; }

// Forgets what was said of the video that was shown.
function forget() {
  review.state = review.current = review.wanted = null;
  review.events = [];
  review.mine.clear();
  review.turns.clear();
  review.wantsCorrected = false;
  find("adding").hidden = true;
}

// A name as `check_reviewer` takes it: what Python prints, and blanks within; null for another.
function nameOf(typed) {
  const name = typed.trim();
  return !name || [...name].length <= 80 && /^(?:[^\p{C}\p{Z}]| )+$/u.test(name) ? name : null;
}

function takeName(typed) {
  const name = nameOf(typed);
  if (name === null) say("This name is not taken: a reviewer's name is 1 to 80 printable characters.");
  else if (name !== review.name) {
    review.name = name;
    say(name ? `You review as ${name}.` : "");
    recall();
    sendAll();
  }
  find("who").value = reviewer();
}

function takeBlind(isBlind) {
  review.isBlind = isBlind;
  drawReview();
  send();
}

// Gives an action to the outbox; says whether it is there.
function give(kind, more) {
  if (!data) return false;
  if (!reviewer()) {
    openTab("review");
    find("who").focus();
    say("Who reviews? Type your name, press Enter, then go on.");
    return false;
  }
  const action = {
    action_id: newName(), kind, video_id: data.video_id, reviewer: reviewer(), ...more,
    moment: {
      run_digest: data.run, model_digest: data.model, playhead_s: screen.time,
      speak_threshold: data.thresholds.speak, update_threshold: data.thresholds.update,
    },
  };
  outbox.put(action);
  review.refusals.delete(pairOf(action));
  recall();
  if (review.problem) say("Not saved yet: kept in this browser, and sent when the server answers.");
  send();
  return true;
}

function giveToEvent(kind, more) {
  const event = currentEvent();
  if (!event) return say("There is no event here to judge: W goes to the next one.");
  return give(kind, { event: { key: event.key, kind: event.kind, role: event.role, time_s: event.time, text: event.text, number: event.number }, ...more });
}

// Takes back, or brings back. What waits in the outbox is named, so that nothing else is meant should it be refused.
function takeBack(kind) {
  const mine = outbox.all().filter((action) => action.reviewer === reviewer() && action.video_id === data.video_id);
  const done = [], undone = [];
  for (const action of mine) {
    if (action.kind === "undo") undone.push(...(action.target ? done.splice(done.indexOf(action.target), 1) : []));
    else if (action.kind === "redo") done.push(...(action.target ? undone.splice(undone.indexOf(action.target), 1) : []));
    else done.push(action.action_id);
  }
  give(kind, { target: (kind === "undo" ? done : undone).at(-1) ?? null });
}

function giveVerdict(verdict) {
  const event = currentEvent();
  giveToEvent("verdict", { verdict });
  if (event && reviewer()) goToUnreviewed(verdict);
}

function draftOf(box) { return `${box.className} ${box.dataset.event}`; }

// Gives what was typed in a box. Without a reviewer's name it stays there: Enter gives it once there is one.
function giveTyped(box, work) {
  review.drafts.set(draftOf(box), box.value);
  if (work(box.value) || reviewer()) review.drafts.delete(draftOf(box));
}

// The box in which something is typed of the current event; null when nothing is.
function typedBox() {
  const box = document.activeElement;
  return box?.matches(TYPED) && element.contains(box) ? box : null;
}

function goToEvent(event) {
  if (!event) return;
  if (event.key !== review.current) typedBox()?.blur(); // gives what was typed to its own event
  screen.pause();
  review.current = event.key;
  cursor = null;
  lastFrame = lastTime = -1;
  const time = Math.min(eventTime(event) + 1e-3, data.duration_s);
  seek(time);
  reveal(time);
  drawReview();
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
  if (!next) return say(`No event ${by > 0 ? "after" : "before"} this one.`);
  goToEvent(next);
}

function goToUnreviewed(given = "") {
  const at = place(), left = review.events.map((event, number) => ({ event, number })).filter(({ event }) => isInScope(event) && opinion(event.key).verdict === null);
  const next = left.find(({ number }) => number > at) ?? left[0];
  if (!next) return say(`${given ? `“${given}”. ` : ""}Every event has your verdict.`);
  goToEvent(next.event);
  if (given) say(`“${given}”; the next one is here.`);
}

// The event under the playhead: the chosen one while the playhead stays on it, else the first of those that began last.
function followEvent(time) {
  if (typedBox()) return;
  const now = currentEvent();
  if (now && Math.abs(eventTime(now) - time) < 0.5 / data.fps) return;
  const begun = review.events.filter((event) => isInScope(event) && eventTime(event) <= time + 1e-4);
  const latest = begun.reduce((most, event) => Math.max(most, eventTime(event)), -Infinity);
  const key = begun.find((event) => eventTime(event) > latest - 1e-3)?.key ?? null;
  if (key === review.current) return;
  review.current = key;
  drawReview();
}

function drawReview() {
  const panel = find("review");
  find("tabs").querySelector("[data-tab=review]").hidden = !props.can_review;
  if (!props.can_review) return;
  drawSaved();
  if (document.activeElement !== find("who")) find("who").value = reviewer();
  find("who").disabled = review.signedIn !== null;
  find("blind").checked = review.isBlind;
  if (!data || panel.hidden) return;
  const event = currentEvent(), said = event ? opinion(event.key) : NOTHING_SAID;
  drawEvent(find("event"), event);
  if (panel.dataset.event !== (event?.key ?? "")) panel.scrollTop = 0;
  panel.dataset.event = event?.key ?? "";
  for (const button of find("verdicts").querySelectorAll(".ss-verdict")) {
    button.setAttribute("aria-pressed", button.dataset.verdict === said.verdict);
    button.disabled = !event;
  }
  for (const option of find("scope").options) option.disabled = !data.has_reference && ["failures", "reference"].includes(option.value);
  for (const [name, value] of [["tags", said.tags.join(", ")], ["note", said.note]]) {
    find(name).disabled = !event;
    fill(find(name), event?.key ?? "", value);
  }
  drawOthers(find("others"), event);
  drawCorrection(event);
}

// Fills a box with what is said of an event, unless somebody types there; what was typed and not given comes first.
function fill(box, key, said) {
  const isTyped = document.activeElement === box && box.dataset.event === key;
  box.dataset.event = key;
  if (!isTyped) box.value = review.drafts.get(draftOf(box)) ?? said;
}

function drawSaved() {
  const counted = review.events.filter(isInScope), who = reviewer();
  const done = who ? counted.filter((event) => opinion(event.key).verdict !== null).length : 0;
  find("done").textContent = `${done} of ${counted.length} judged`;
  find("saved").textContent = savedWords();
  find("saved").classList.toggle("ss-unsaved", Boolean(review.problem) || outbox.all().some(refusal));
}

function drawEvent(box, event) {
  if (!event) return box.replaceChildren(node("span", "ss-dim", "No event here."));
  const names = { generated: "model said", update: "model updated", state: "wrong state of", reference: { update: "reference update", user: "user", assistant: "reference" }[event.role] };
  const turn = event.turn === null ? null : data.turns[event.turn];
  const parts = [node("b", "", `${clockText(eventTime(event))} ${names[event.kind]}`), " ", node("span", "", correctedTurn(event)?.text ?? event.text)];
  const found = turn?.failure ?? (data.references[event.reference]?.is_missed ? "missed" : null);
  if (found) parts.push(node("span", "ss-tag", `${KINDS[found] ?? ""} ${found}`));
  if (turn?.link !== null && turn?.link !== undefined && data.references[turn.link].text !== event.text) parts.push(quoted("reference", data.references[turn.link].text));
  box.replaceChildren(...parts);
}

function drawOthers(box, event) {
  const others = (event ? review.state?.opinions[event.key] ?? [] : []).filter((said) => said.reviewer !== reviewer());
  box.replaceChildren(...others.map((said) => {
    const row = node("p", "ss-other");
    row.append(node("b", "", said.reviewer), ` ${said.verdict ?? "no verdict"}`, ...said.tags.map((tag) => node("span", "ss-tag", tag)));
    if (said.note) row.append(quoted("note", said.note));
    return row;
  }));
}

find("verdicts").prepend(...props.verdicts.map((verdict, number) => {
  const button = node("button", "ss-verdict");
  button.type = "button";
  button.dataset.verdict = verdict;
  button.append(node("kbd", "", number + 1), verdict);
  button.addEventListener("click", () => { if (data) giveVerdict(verdict); });
  return button;
}));
find("who").addEventListener("change", (event) => { takeName(event.target.value); remember("reviewer", review.name); });
find("blind").addEventListener("change", (event) => { takeBlind(event.target.checked); remember("blind", review.isBlind ? "yes" : "no"); });
document.addEventListener("stepscope:reviewer", (event) => takeName(event.detail), { signal: listeners.signal }); // the reviews tab's
document.addEventListener("stepscope:blind", (event) => takeBlind(event.detail === "yes"), { signal: listeners.signal });
find("scope").addEventListener("change", (event) => {
  review.scope = event.target.value;
  if (!data) return;
  if (currentEvent() && !isInScope(currentEvent())) review.current = null;
  followEvent(screen.time);
  layOut();
  drawReview();
});
find("tags").addEventListener("change", (event) => giveTyped(event.target, (text) => giveToEvent("tags", { tags: text.split(",").map((tag) => tag.trim()).filter(Boolean) })));
find("note").addEventListener("change", (event) => giveTyped(event.target, (note) => giveToEvent("note", { note })));
find("review").addEventListener("keydown", (event) => {
  const box = event.target;
  if (!box.matches("input, textarea") || event.key !== "Escape" && (event.key !== "Enter" || event.shiftKey)) return;
  event.preventDefault();
  const isHeld = event.key === "Enter" && review.drafts.has(draftOf(box));
  box.blur(); // gives what was typed since it was entered
  if (isHeld && review.drafts.has(draftOf(box))) box.dispatchEvent(new Event("change"));
  if (document.activeElement !== document.body) return; // the name is asked for
  const held = box === find("who") && reviewer() && [...root.querySelectorAll(TYPED)].find((other) => review.drafts.has(draftOf(other)));
  (held || canvas).focus({ preventScroll: true });
});
find("review").addEventListener("focusin", (event) => { if (event.target.matches(`${TYPED}, .ss-addedText`)) screen.pause(); });
find("review").addEventListener("focusout", () => { lastFrame = lastTime = -1; }); // what was not followed while somebody typed
document.addEventListener("visibilitychange", () => { if (!document.hidden) sendAll(); }, { signal: listeners.signal });
