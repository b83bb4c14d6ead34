// The review panel: the selected event, its verdict, tags and note.

import { dropUnnamed, submitForEvent, submitUnnamed } from "./actions.js";
import { layout } from "../timeline/chart.js";
import { drawCorrection, resetEdited } from "./corrections.js";
import { clockText } from "../state/data.js";
import { createNode, createQuote, EVENT_INPUTS } from "../dom/dom.js";
import { draftKey, fillInput, submitInput } from "./drafts.js";
import { describeEvent, KIND_LABELS, ROLE_LABELS } from "./event_words.js";
import { correctedTurn, eventTime } from "./layer.js";
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
} from "./opinions.js";
import { drawQueue } from "./queue.js";
import { goOnSettling } from "../playback/hits.js";
import { redrawPlayhead } from "../playback/playhead.js";
import { followEvent, goToUnreviewed, stopIndexOf } from "../playback/selection.js";
import { readSetting } from "../state/settings.js";
import { keepSetting, setStatus } from "../dom/status.js";
import { signOfKind } from "../playback/stops.js";
import { refreshReviews, refusalReason, retryAll, savedText, sendWaiting } from "./sync.js";
import { drawVocabulary, mountVocabulary } from "../panels/vocabulary.js";

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
    if (name) submitUnnamed(player);
  }
  player.find("who").value = player.reviewer;
}

function setBlind(player, isBlind) {
  player.review.isBlind = isBlind;
  drawReview(player);
  sendWaiting(player);
}

export function drawReview(player) {
  const panel = player.find("review");
  player.find("tabs").querySelector("[data-tab=review]").hidden = !player.settings.can_review;
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
    button.setAttribute("aria-pressed", button.dataset.verdict === said.verdict);
    button.disabled = !event || !fitsVerdict(player, event, button.dataset.verdict);
  }
  player.find("split").disabled = !event?.pair && !event?.other;
  player.find("split").textContent = event?.other ? "join (S)" : "split (S)";
  for (const option of player.find("scope").options) option.disabled = !AVAILABLE_SCOPES[option.value](player);
  for (const [name, value] of [
    ["tags", said.tags.join(", ")],
    ["note", said.note],
  ]) {
    player.find(name).disabled = !event;
    fillInput(player, player.find(name), event?.key ?? "", value);
  }
  drawVocabulary(player, event, said.tags);
  drawOtherOpinions(player, player.find("others"), event);
  drawCorrection(player, event);
}

function drawSaveStatus(player) {
  const { all, done } = countJudged(player);
  player.find("done").textContent = `${player.reviewer ? done : 0} of ${all} judged`;
  player.find("saved").textContent = savedText(player);
  player
    .find("saved")
    .classList.toggle(
      "ss-unsaved",
      Boolean(player.review.problem) || player.outbox.all().some((action) => refusalReason(player, action)),
    );
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
  box.replaceChildren(
    ...rows.map(([said, which]) => {
      const row = createNode("p", "ss-other");
      row.append(
        createNode("b", "", said.reviewer),
        ` ${which}${said.verdict ?? "no verdict"}`,
        ...said.tags.map((tag) => createNode("span", "ss-tag", tag)),
      );
      if (said.note) row.append(createQuote("note", said.note));
      return row;
    }),
    ...(event ? settleRows(player, event) : []),
  );
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
  const row = createNode("p", "ss-line ss-settle");
  row.append(createNode("span", "", final ? `Settled by ${by}: ${final}` : "They differ. Settle as"));
  for (const verdict of final ? [null] : given) {
    const button = createNode("button", "", verdict ?? "open it again");
    button.type = "button";
    button.addEventListener("click", () =>
      submitForEvent(player, "settle", { verdict }, () => verdict && goOnSettling(player)),
    );
    row.append(button);
  }
  return [row];
}

export function giveVerdict(player, verdict) {
  const event = currentEvent(player);
  if (!fitsVerdict(player, event, verdict))
    return setStatus(player, `“${verdict}” does not fit: this is a ${describeEvent(player, event)}.`);
  submitForEvent(player, "verdict", { verdict }, () => {
    if (eventByKey(player, event.key)) goToUnreviewed(player, `“${verdict}”: ${describeEvent(player, event)}. `);
  });
}

// Draws the event that keys judge, on every tab.
function drawEvent(player, box, event) {
  box.hidden = !player.settings.can_review || !player.data || !player.data.events.length;
  if (box.hidden) return;
  const keys = createNode("span", "ss-dim", "1–7 judge ");
  if (!event) return box.replaceChildren(keys, createNode("span", "", "nothing: no event is selected"));
  const turn = event.turn === null ? null : player.data.turns[event.turn];
  const name = createNode(
    "b",
    "",
    `${clockText(eventTime(player, event))} ${KIND_LABELS[event.kind] ?? ROLE_LABELS[event.role]}`,
  );
  const parts = [keys, name, " ", createNode("span", "", correctedTurn(player, event)?.text ?? event.text)];
  const found = stopIndexOf(player, event);
  if (event.pair) parts.push(createNode("span", "ss-tag", "and its reference"));
  if (event.other)
    parts.push(
      createNode("span", "ss-tag", event.kind === "reference" ? "without the model's event" : "without its reference"),
    );
  if (found !== null)
    parts.push(
      createNode("span", "ss-tag", `${signOfKind(player.data.stops[found].kind)} ${player.data.stops[found].kind}`),
    );
  const given = opinion(player, event.key).verdict;
  if (given) parts.push(createNode("span", "ss-tag ss-mine", `your verdict: ${given}`));
  if (turn?.link !== null && turn?.link !== undefined && player.data.references[turn.link].text !== event.text)
    parts.push(createQuote("reference", player.data.references[turn.link].text));
  box.replaceChildren(...parts);
}

export function mountReview(player) {
  player.review.name = parseReviewerName(readSetting("reviewer")) ?? "";
  player.review.isBlind = readSetting("blind") === "yes";
  player.find("verdicts").prepend(
    ...player.settings.verdicts.map((verdict, number) => {
      const button = createNode("button", "ss-verdict");
      button.type = "button";
      button.dataset.verdict = verdict;
      button.append(createNode("kbd", "", number + 1), verdict);
      button.addEventListener("click", () => {
        if (player.data) giveVerdict(player, verdict);
      });
      return button;
    }),
  );
  mountVocabulary(player);
  player.find("who").addEventListener("change", (event) => {
    setReviewer(player, event.target.value);
    keepSetting(player, "reviewer", player.review.name);
  });
  player.find("blind").addEventListener("change", (event) => {
    setBlind(player, event.target.checked);
    keepSetting(player, "blind", player.review.isBlind ? "yes" : "no");
  });
  // the reviews tab's
  document.addEventListener("stepscope:reviewer", (event) => setReviewer(player, event.detail), {
    signal: player.listeners.signal,
  });
  document.addEventListener("stepscope:blind", (event) => setBlind(player, event.detail === "yes"), {
    signal: player.listeners.signal,
  });
  player.find("scope").addEventListener("change", (event) => {
    player.review.scope = event.target.value;
    if (!player.data) return;
    if (currentEvent(player) && !isInScope(player, currentEvent(player))) player.review.current = null;
    followEvent(player, player.video.time);
    layout(player);
    drawReview(player);
  });
  player.find("tags").addEventListener("change", (event) =>
    submitInput(player, event.target, (text, done) =>
      submitForEvent(
        player,
        "tags",
        {
          tags: text
            .split(",")
            .map((tag) => tag.trim())
            .filter(Boolean),
        },
        done,
      ),
    ),
  );
  player
    .find("note")
    .addEventListener("change", (event) =>
      submitInput(player, event.target, (note, done) => submitForEvent(player, "note", { note }, done)),
    );
  player.find("review").addEventListener("keydown", (event) => {
    const box = event.target;
    if (!box.matches("input, textarea") || (event.key !== "Escape" && (event.key !== "Enter" || event.shiftKey)))
      return;
    event.preventDefault();
    if (box === player.find("edited") && event.key === "Escape") resetEdited(player);
    if (event.key === "Escape" && box.matches(".ss-when, .ss-until")) box.value = box.defaultValue;
    const isHeld = event.key === "Enter" && player.review.drafts.has(draftKey(box));
    box.blur(); // submits the text
    if (isHeld && player.review.unnamed.length) return player.find("who").focus();
    if (isHeld && player.review.drafts.has(draftKey(box))) box.dispatchEvent(new Event("change"));
    if (document.activeElement !== document.body) return; // the name is missing
    if (box === player.find("who") && !player.reviewer) dropUnnamed(player);
    player.canvas.focus({ preventScroll: true });
  });
  player.find("review").addEventListener("focusin", (event) => {
    if (event.target.matches(`${EVENT_INPUTS}, .ss-addedText`)) player.video.pause();
  });
  // the selection does not follow the playhead while the user types
  player.find("review").addEventListener("focusout", () => redrawPlayhead(player));
  document.addEventListener(
    "visibilitychange",
    () => {
      if (!document.hidden) retryAll(player);
    },
    { signal: player.listeners.signal },
  );
}
