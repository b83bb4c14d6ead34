// The review panel: the selected event, its verdict, tags and note; the reviewer's queue.

import { isDraft, dropUnnamed, fillInput, submitForEvent, submitInput, ownAssignment, sendUnnamed } from "./actions.js";
import { layout } from "../timeline/chart.js";
import { drawCorrection, drawProposal, resetEdited } from "./corrections.js";
import { clockText, referenceWord, STOP_SIGNS } from "../state/data.js";
import {
  createButton,
  createNode,
  createQuote,
  EVENT_INPUTS,
  focusedInput,
  keepSetting,
  keyOf,
  setStatus,
  waitsForRelease,
} from "../dom/dom.js";
import { describeEvent, eventLabel } from "../events/event_words.js";
import { correctedTurn, eventTime } from "../state/layer.js";
import {
  AVAILABLE_SCOPES,
  countJudged,
  currentEvent,
  eventByKey,
  finalVerdict,
  fitsVerdict,
  isInScope,
  isSame,
  mergeOpinions,
  NO_OPINION,
  opinion,
  PARTS,
  TYPED_PARTS,
} from "../events/opinions.js";
import { drawKinds, drawListPlace, goOnSettling } from "../playback/failure_stops.js";
import { redrawPlayhead } from "../clock/playhead.js";
import { followEvent, goToUnreviewed, stopIndexOf } from "../playback/selection.js";
import { readSetting } from "../state/settings.js";
import { refreshReviews, refusalReason, retryAll, savedText, sendWaiting } from "./sync.js";
import { openTab } from "../panels/tabs.js";

// A name by the rules of `check_reviewer` in Python: printable characters and inner spaces; null for an invalid one.
function parseReviewerName(typed) {
  const name = typed.trim();
  return !name || ([...name].length <= 80 && /^(?:[^\p{C}\p{Z}]| )+$/u.test(name)) ? name : null;
}

function setReviewer(player, typed) {
  const name = parseReviewerName(typed);
  if (name === null) setStatus(player, "This name is not valid: a reviewer's name is 1 to 80 printable characters.");
  else if (name !== player.review.name) {
    player.review.name = name;
    setStatus(player, name ? `You review as ${name}.` : "");
    mergeOpinions(player);
    retryAll(player);
    if (name) sendUnnamed(player);
  }
  player.find("who").value = player.reviewer;
}

// Turns on or off that keys give verdicts and correct the reference.
export function setReviewing(player, isOn) {
  player.isReviewing = isOn && player.settings.can_review;
  keepSetting(player, "reviewing", player.isReviewing ? "yes" : "no");
  if (player.isReviewing) openTab(player, "review");
  if (player.data) drawListPlace(player);
  redrawPlayhead(player);
  drawReview(player);
}

// Sets the name that was typed in the player or in the tab Reviews, and keeps it in this browser.
export function chooseReviewer(player, typed) {
  setReviewer(player, typed);
  keepSetting(player, "reviewer", player.review.name);
}

export function chooseBlind(player, isBlind) {
  setBlind(player, isBlind);
  keepSetting(player, "blind", player.review.isBlind ? "yes" : "no");
}

function setBlind(player, isBlind) {
  player.review.isBlind = isBlind;
  drawReview(player);
  if (player.data) drawKinds(player);
  layout(player);
  sendWaiting(player);
}

export function drawReview(player) {
  const panel = player.find("review");
  if (waitsForRelease(panel, () => drawReview(player))) return;
  player.find("tabs").querySelector("[data-tab=review]").hidden = !player.settings.can_review;
  const textContent = player.isReviewing ? `✎ ${player.reviewer || "your name"}` : "✎ review",
    hidden = !player.settings.can_review;
  Object.assign(player.find("mode"), { hidden, textContent, ariaPressed: player.isReviewing });
  player.root.classList.toggle("ss-reviewing", player.isReviewing);
  if (!player.settings.can_review) return;
  drawSaveStatus(player);
  drawQueue(player);
  if (document.activeElement !== player.find("who")) player.find("who").value = player.reviewer;
  player.find("who").disabled = player.review.signedIn !== null;
  player.find("blind").checked = player.review.isBlind;
  const event = player.data ? currentEvent(player) : null,
    said = event ? opinion(player, event.key) : NO_OPINION;
  drawEvent(player, player.find("event"), event);
  if (!player.data || panel.hidden) return;
  if (panel.dataset.event !== (event?.key ?? "")) {
    panel.dataset.event = event?.key ?? "";
    panel.scrollTop = 0;
    refreshReviews(player);
  }
  for (const button of player.find("verdicts").querySelectorAll(".ss-verdict")) {
    button.ariaPressed = button.dataset.verdict === said.verdict;
    button.disabled = !event || !fitsVerdict(player, event, button.dataset.verdict);
  }
  player.find("split").disabled = !event?.pair && !event?.other;
  player.find("split").textContent = event?.other ? "join (S)" : "split (S)";
  for (const option of player.find("scope").options) option.disabled = !AVAILABLE_SCOPES[option.value](player);
  for (const [name, { write }] of Object.entries(TYPED_PARTS)) {
    player.find(name).disabled = !event;
    fillInput(player, player.find(name), event?.key ?? "", write(said[name]));
  }
  drawVocabulary(player, event, said.tags);
  drawOtherOpinions(player, player.find("others"), event);
  drawCorrection(player, event);
}

function drawSaveStatus(player) {
  const { all, done } = countJudged(player);
  player.find("done").textContent = `${player.reviewer ? done : 0} of ${all} judged`;
  const saved = player.find("saved"),
    isRefused = player.outbox.all().some((action) => refusalReason(player, action));
  saved.textContent = savedText(player);
  saved.classList.toggle("ss-unsaved", Boolean(player.review.problem) || isRefused);
}

function otherOpinions(player, key) {
  return (player.review.state?.opinions[key] ?? []).filter((said) => said.reviewer !== player.reviewer);
}

// Other reviewers' opinions on the event, and on the reference of its pair where they differ.
function drawOtherOpinions(player, box, event) {
  const ofReference = event?.pair ? otherOpinions(player, event.pair.key) : [];
  const isNews = (said, known) =>
    known.every((other) => other.reviewer !== said.reviewer || PARTS.some((part) => !isSame(said[part], other[part])));
  const ofEvent = event ? otherOpinions(player, event.key) : [];
  const rows = [
    ...ofEvent.map((said) => [said, ""]),
    ...ofReference.filter((said) => isNews(said, ofEvent)).map((said) => [said, "of the reference: "]),
  ];
  const draw = ([said, which]) =>
    createNode("p", "ss-other", [
      createNode("b", "", said.reviewer),
      ` ${which}${said.verdict ?? "no verdict"}`,
      ...said.tags.map((tag) => createNode("span", "ss-tag", tag)),
      said.note && createQuote("note", said.note),
    ]);
  const proposals = [event?.key, event?.pair?.key].flatMap((key) => player.review.state?.proposals[key] ?? []),
    proposed = proposals.map((proposal) => drawProposal(player, proposal));
  box.replaceChildren(...rows.map(draw), ...proposed, ...(event ? settleRows(player, event) : []));
}

// The final verdict of an event on which reviewers differ, or a button for each verdict that was given.
function settleRows(player, event) {
  const keys = event.pair ? [event.key, event.pair.key] : [event.key]; // others may have judged one side alone
  const [final, by] = keys.map((key) => finalVerdict(player, key)).find(([verdict]) => verdict) ?? [null, ""];
  const verdicts = [...keys.flatMap((key) => otherOpinions(player, key)), opinion(player, event.key)].map(
    (said) => said.verdict,
  );
  const fits = (verdict) => [event, event.pair].some((side) => side && fitsVerdict(player, side, verdict));
  const given = new Set(verdicts.filter((verdict) => verdict && fits(verdict)));
  if (!final && given.size < 2) return [];
  const words = createNode("span", "", final ? `Settled by ${by}: ${final}` : "They differ. Settle as"),
    buttons = [...(final ? [null] : given)].map((verdict) =>
      createButton("", verdict ?? "open it again", () =>
        submitForEvent(player, "settle", { verdict }, () => verdict && goOnSettling(player)),
      ),
    );
  return [createNode("p", "ss-line ss-settle", [words, ...buttons])];
}

export function giveVerdict(player, verdict) {
  const event = currentEvent(player);
  if (!fitsVerdict(player, event, verdict))
    return setStatus(player, `“${verdict}” does not fit: this is a ${describeEvent(player, event)}.`);
  submitForEvent(player, "verdict", { verdict }, () => {
    if (eventByKey(player, event.key)) goToUnreviewed(player, `“${verdict}”: ${describeEvent(player, event)}. `);
  });
}

function drawEvent(player, box, event) {
  box.hidden = !player.isReviewing || !player.data || !player.data.events.length;
  if (box.hidden) return;
  const keys = createNode("span", "ss-dim", "1–7 judge ");
  if (!event) return box.replaceChildren(keys, createNode("span", "", "nothing: no event is selected"));
  const tag = (words, className = "") => words && createNode("span", `ss-tag ${className}`.trim(), words);
  const { verdict } = opinion(player, event.key),
    stop = player.data.stops[stopIndexOf(player, event)],
    reference = player.data.references[player.data.turns[event.turn]?.link],
    name = `${clockText(eventTime(player, event))} ${eventLabel(player.data, event)}`;
  const parts = [
    keys,
    createNode("b", "", name),
    " ",
    createNode("span", "", correctedTurn(player, event)?.text ?? event.text),
    event.pair && tag(`and its ${referenceWord(player.data)}`),
    event.other &&
      tag(event.kind === "reference" ? "without the model's event" : `without its ${referenceWord(player.data)}`),
    stop && tag(`${STOP_SIGNS[stop.kind]} ${stop.kind}`),
    verdict && tag(`your verdict: ${verdict}`, "ss-mine"),
    reference && reference.text !== event.text && createQuote("reference", reference.text),
  ];
  box.replaceChildren(...parts.filter(Boolean));
}

export function mountReview(player) {
  player.review.name = parseReviewerName(readSetting("reviewer")) ?? "";
  player.review.isBlind = player.settings.is_blind || (player.settings.can_review && readSetting("blind") === "yes");
  player.isReviewing = player.settings.can_review && readSetting("reviewing") === "yes";
  const buttons = player.settings.verdicts.map((verdict, number) =>
    createButton(
      "ss-verdict",
      [createNode("kbd", "", number + 1), verdict],
      () => player.data && giveVerdict(player, verdict),
      { dataset: { verdict } },
    ),
  );
  player.find("verdicts").prepend(...buttons);
  mountVocabulary(player);
  player.listen("who", "change", ({ target }) => chooseReviewer(player, target.value));
  player.listen("blind", "change", ({ target }) => chooseBlind(player, target.checked));
  player.listen("scope", "change", ({ target }) => {
    player.review.scope = target.value;
    if (!player.data) return;
    if (currentEvent(player) && !isInScope(player, currentEvent(player))) player.review.current = null;
    followEvent(player, player.video.time);
    layout(player);
    drawReview(player);
  });
  for (const [name, { read }] of Object.entries(TYPED_PARTS)) {
    const submit = (text, done) => submitForEvent(player, name, { [name]: read(text) }, done);
    player.listen(name, "change", ({ target }) => submitInput(player, target, submit));
  }
  player.listen("review", "keydown", (event) => {
    const { key, target: box } = event;
    if (!box.matches("input, textarea") || (key !== "Escape" && (key !== "Enter" || event.shiftKey))) return;
    event.preventDefault();
    if (box === player.find("edited") && key === "Escape") resetEdited(player);
    if (key === "Escape" && box.matches(".ss-when, .ss-until")) box.value = box.defaultValue;
    const isHeld = key === "Enter" && isDraft(player, box);
    box.blur(); // submits the text
    if (isHeld && player.review.unnamed.length) return player.find("who").focus();
    if (isHeld && isDraft(player, box)) box.dispatchEvent(new Event("change"));
    if (document.activeElement !== document.body) return; // the name is missing
    if (box === player.find("who") && !player.reviewer) dropUnnamed(player);
    player.focus();
  });
  player.listen("review", "focusin", ({ target }) => {
    if (target.matches(`${EVENT_INPUTS}, .ss-addedText`)) player.video.pause();
  });
  // the selection does not follow the playhead while the user types
  player.listen("review", "focusout", () => redrawPlayhead(player));
  // a reload submits the text, as a click elsewhere does
  player.listen(window, "pagehide", () => focusedInput(player)?.blur());
  player.listen(document, "visibilitychange", () => document.hidden || retryAll(player));
}

const KEYS = "1234567890abcdefhijklmnopqrstuvwxyz"; // without G, which focuses the text box

// Draws a button for each name; a cause is the tag `cause:NAME`. The buttons are kept while the vocabulary is the same.
function drawVocabulary(player, event, given) {
  const box = player.find("vocabulary"),
    { tags = [], causes = [], problem = "" } = player.review.state?.vocabulary ?? {};
  const entries = [
    ...tags.map(([name, meaning]) => [name, name, meaning]),
    ...causes.map(([name, meaning]) => [`cause:${name}`, `cause: ${name}`, meaning]),
  ];
  const content = JSON.stringify([entries, problem]);
  if (box.dataset.content !== content) {
    box.dataset.content = content;
    box.hidden = !entries.length && !problem;
    const buttons = entries.map((entry, number) => makeButton(player, entry, KEYS[number] ?? ""));
    box.replaceChildren(...buttons, ...(problem ? [createNode("p", "ss-failure", problem)] : []));
  }
  for (const button of box.querySelectorAll("button")) {
    button.disabled = !event;
    button.ariaPressed = given.includes(button.dataset.tag);
  }
}

function makeButton(player, [tag, words, meaning], key) {
  const toggle = ({ detail, currentTarget }) => {
    const event = currentEvent(player),
      given = event ? opinion(player, event.key).tags : [];
    const tags = given.includes(tag) ? given.filter((other) => other !== tag) : [...given, tag];
    submitForEvent(player, "tags", { tags });
    if (detail) player.returnFocus(currentTarget); // after a click digits judge again
  };
  const content = [key && createNode("kbd", "", key.toUpperCase()), createNode("span", "", words)];
  return createButton("ss-word", content, toggle, {
    title: meaning ? `${words}: ${meaning}` : words,
    dataset: { tag, key },
  });
}

export function focusTags(player) {
  openTab(player, "review");
  (player.find("vocabulary").querySelector("button:enabled") ?? player.find("tags")).focus();
}

function mountVocabulary(player) {
  const box = player.find("vocabulary");
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = keyOf(event),
      button = [...box.querySelectorAll("button")].find((one) => one.dataset.key === key);
    if (button) button.click();
    else if (key === "g") player.find("tags").focus();
    else if (key === "escape") player.focus();
    else return;
    event.preventDefault();
    event.stopPropagation(); // the player's own keys judge
  });
}

function drawQueue(player) {
  const found = player.data ? ownAssignment(player) : null,
    line = player.find("queue");
  line.hidden = !found;
  if (!found) return;
  const where = found.run ? ` in the run ${found.run}` : "",
    others = found.others.length ? `, also to ${found.others.join(", ")}` : "";
  const next = createButton("ss-finish", found.is_done ? "next video (!)" : "done, next (!)", null, {
    dataset: { do: "finishVideo" },
  });
  line.replaceChildren(
    createNode("span", "", found.is_done ? "You are done with this video. " : `Assigned to you${where}${others}. `),
    next,
  );
}
