// The panel of reviewing: the selected event, its verdict, tags and notes.

import { giveToEvent } from "./actions.js";
import { layOut } from "./chart.js";
import { drawCorrection } from "./corrections.js";
import { clockText } from "./data.js";
import { find, node, quoted, TYPED } from "./dom.js";
import { draftOf, fill, giveTyped } from "./drafts.js";
import { KIND_WORDS, nameOfEvent, ROLE_WORDS } from "./event_words.js";
import { correctedTurn, eventTime } from "./layer.js";
import { countJudged, currentEvent, isInScope, isSame, NOTHING_SAID, OFFERED, opinion, PARTS, recall } from "./opinions.js";
import { outbox } from "./outbox.js";
import { drawAgain } from "./playhead.js";
import { failureOf, followEvent, goToUnreviewed } from "./selection.js";
import { remember, remembered } from "./settings.js";
import { host, listeners, review, reviewer, state, ui } from "./state.js";
import { say } from "./status.js";
import { signOf } from "./stops.js";
import { refusal, savedWords, send, sendAll } from "./sync.js";

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

export function drawReview() {
  const panel = find("review");
  find("tabs").querySelector("[data-tab=review]").hidden = !host.props.can_review;
  if (!host.props.can_review) return;
  drawSaved();
  if (document.activeElement !== find("who")) find("who").value = reviewer();
  find("who").disabled = review.signedIn !== null;
  find("blind").checked = review.isBlind;
  const event = state.data ? currentEvent() : null, said = event ? opinion(event.key) : NOTHING_SAID;
  drawEvent(find("event"), event);
  if (!state.data || panel.hidden) return;
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

export function giveVerdict(verdict) {
  const event = currentEvent();
  if (giveToEvent("verdict", { verdict })) goToUnreviewed(`“${verdict}”: ${nameOfEvent(event)}. `);
}

// Draws the event that a key judges, on every tab.
function drawEvent(box, event) {
  box.hidden = !host.props.can_review || !state.data || !state.data.events.length;
  if (box.hidden) return;
  const keys = node("span", "ss-dim", "1–7 judge ");
  if (!event) return box.replaceChildren(keys, node("span", "", "nothing: no event is selected"));
  const turn = event.turn === null ? null : state.data.turns[event.turn];
  const name = node("b", "", `${clockText(eventTime(event))} ${KIND_WORDS[event.kind] ?? ROLE_WORDS[event.role]}`);
  const parts = [keys, name, " ", node("span", "", correctedTurn(event)?.text ?? event.text)];
  const found = failureOf(event);
  if (event.pair) parts.push(node("span", "ss-tag", "and its reference"));
  if (event.other) parts.push(node("span", "ss-tag", event.kind === "reference" ? "without what the model wrote" : "without its reference"));
  if (found !== null) parts.push(node("span", "ss-tag", `${signOf(state.data.stops[found].kind)} ${state.data.stops[found].kind}`));
  const given = opinion(event.key).verdict;
  if (given) parts.push(node("span", "ss-tag ss-mine", `your verdict: ${given}`));
  if (turn?.link !== null && turn?.link !== undefined && state.data.references[turn.link].text !== event.text) parts.push(quoted("reference", state.data.references[turn.link].text));
  box.replaceChildren(...parts);
}

export function mountReview() {
  review.name = nameOf(remembered("reviewer")) ?? "";
  review.isBlind = remembered("blind") === "yes";
  find("verdicts").prepend(...host.props.verdicts.map((verdict, number) => {
    const button = node("button", "ss-verdict");
    button.type = "button";
    button.dataset.verdict = verdict;
    button.append(node("kbd", "", number + 1), verdict);
    button.addEventListener("click", () => { if (state.data) giveVerdict(verdict); });
    return button;
  }));
  find("who").addEventListener("change", (event) => { takeName(event.target.value); remember("reviewer", review.name); });
  find("blind").addEventListener("change", (event) => { takeBlind(event.target.checked); remember("blind", review.isBlind ? "yes" : "no"); });
  document.addEventListener("stepscope:reviewer", (event) => takeName(event.detail), { signal: listeners.signal }); // the reviews tab's
  document.addEventListener("stepscope:blind", (event) => takeBlind(event.detail === "yes"), { signal: listeners.signal });
  find("scope").addEventListener("change", (event) => {
    review.scope = event.target.value;
    if (!state.data) return;
    if (currentEvent() && !isInScope(currentEvent())) review.current = null;
    followEvent(ui.video.time);
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
    const held = box === find("who") && reviewer() && [...ui.root.querySelectorAll(TYPED)].find((other) => review.drafts.has(draftOf(other)));
    (held || ui.canvas).focus({ preventScroll: true });
  });
  find("review").addEventListener("focusin", (event) => { if (event.target.matches(`${TYPED}, .ss-addedText`)) ui.video.pause(); });
  find("review").addEventListener("focusout", drawAgain); // the playhead is not followed while one types
  document.addEventListener("visibilitychange", () => { if (!document.hidden) sendAll(); }, { signal: listeners.signal });
}
