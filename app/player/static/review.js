// Verdicts, tags and notes on the selected event. What is given goes to the outbox, and from there to the store.

const SCOPES = {
  all: () => true,
  failures: (event) => event.kind === "state" || (event.turn !== null ? data.turns[event.turn].failure !== null : data.references[event.reference]?.is_missed),
  model: (event) => event.kind === "generated" || event.kind === "update",
  reference: (event) => referenceOf(event) !== null,
};
const OFFERED = {
  all: () => true,
  failures: () => canFail(data),
  model: () => !data.isReferenceAlone,
  reference: () => data.has_reference,
};
const outbox = new Outbox();
const review = {
  state: null, events: [], units: new Map(), splits: new Map(), mine: new Map(), turns: new Map(), current: null, wanted: null, scope: "all", wantsCorrected: false, // what is said, and of what
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
  const events = added.length ? [...data.events, ...added].sort((a, b) => a.time - b.time) : data.events;
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
    for (const [event, other] of [[action.event, action.paired], [action.paired, action.event]]) {
      if (!event) continue;
      const own = ownOpinion(event.key), { [action.kind]: _, ...paired_with } = own.paired_with ?? {};
      review.mine.set(event.key, { ...own, ...given, isWaiting: true, paired_with: other ? { ...paired_with, [action.kind]: other.key } : paired_with });
    }
  }
  review.events = joinPairs(events);
  review.turns = new Map((layer()?.turns ?? []).map((turn) => [turn.key, moves.size ? { ...turn, time: moves.get(JSON.stringify(turn.name)) ?? turn.time } : turn]));
  data.judged = review.events.map((event) => ({ key: event.key, time: eventTime(event), ...opinion(event.key) }));
  transcript.mark((keys) => [...new Set(keys.map((key) => review.units.get(key)).filter(Boolean))].map((unit) => opinion(unit.key)));
  askPaint();
  drawReview();
}

function ownOpinion(key) { return review.mine.get(key) ?? NOTHING_SAID; }
function correctedTurn(event) { return review.turns.get(event.key) ?? null; }
function eventTime(event) { return review.turns.get(event.key)?.time ?? event.time; }

// Forgets what was said of the video that was shown.
function forget() {
  review.state = review.current = review.wanted = null;
  review.events = [];
  for (const kept of [review.units, review.splits, review.mine]) kept.clear();
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
  if (!event) return say("There is no event here to judge: W goes to the next one.", true);
  return give(kind, { event: named(event), ...(event.pair ? { paired: named(event.pair) } : {}), ...more });
}

function named({ key, kind, role, time, text, number }) { return { key, kind, role, time_s: time, text, number }; }

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

function drawReview() {
  const panel = find("review");
  find("tabs").querySelector("[data-tab=review]").hidden = !props.can_review;
  if (!props.can_review) return;
  drawSaved();
  if (document.activeElement !== find("who")) find("who").value = reviewer();
  find("who").disabled = review.signedIn !== null;
  find("blind").checked = review.isBlind;
  const event = data ? currentEvent() : null, said = event ? opinion(event.key) : NOTHING_SAID;
  drawEvent(find("event"), event);
  if (!data || panel.hidden) return;
  if (panel.dataset.event !== (event?.key ?? "")) panel.scrollTop = 0;
  panel.dataset.event = event?.key ?? "";
  for (const button of find("verdicts").querySelectorAll(".ss-verdict")) {
    button.setAttribute("aria-pressed", button.dataset.verdict === said.verdict);
    button.disabled = !event;
  }
  for (const option of find("scope").options) option.disabled = !OFFERED[option.value]();
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
  const { all, done } = countJudged();
  find("done").textContent = `${reviewer() ? done : 0} of ${all} judged`;
  find("saved").textContent = savedWords();
  find("saved").classList.toggle("ss-unsaved", Boolean(review.problem) || outbox.all().some(refusal));
}

function othersOf(key) { return (review.state?.opinions[key] ?? []).filter((said) => said.reviewer !== reviewer()); }

// What others say of the event; of the reference of a pair where it is something else.
function drawOthers(box, event) {
  const ofReference = event?.pair ? othersOf(event.pair.key) : [];
  const isNews = (said, known) => known.every((other) => other.reviewer !== said.reviewer || PARTS.some((part) => !isSame(said[part], other[part])));
  const ofEvent = event ? othersOf(event.key) : [];
  const rows = [...ofEvent.map((said) => [said, ""]), ...ofReference.filter((said) => isNews(said, ofEvent)).map((said) => [said, "of the reference: "])];
  box.replaceChildren(...rows.map(([said, which]) => {
    const row = node("p", "ss-other");
    row.append(node("b", "", said.reviewer), ` ${which}${said.verdict ?? "no verdict"}`, ...said.tags.map((tag) => node("span", "ss-tag", tag)));
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
find("review").addEventListener("focusout", drawAgain); // the playhead is not followed while one types
document.addEventListener("visibilitychange", () => { if (!document.hidden) sendAll(); }, { signal: listeners.signal });
