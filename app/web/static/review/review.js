// The review panel: the selected event, its verdict, tags and note.

import { dropUnnamed, submitForEvent, submitUnnamed } from "./actions.js";
import { layout } from "../timeline/chart.js";
import { drawCorrection, resetEdited } from "./corrections.js";
import { clockText } from "../state/data.js";
import { createNode, createQuote, EVENT_INPUTS, find } from "../dom/dom.js";
import { draftKey, fillInput, submitInput } from "./drafts.js";
import { describeEvent, KIND_LABELS, ROLE_LABELS } from "./event_words.js";
import { correctedTurn, eventTime } from "./layer.js";
import {
  AVAILABLE_SCOPES,
  countJudged,
  currentEvent,
  eventByKey,
  fitsVerdict,
  isInScope,
  isSame,
  mergeOpinions,
  NO_OPINION,
  opinion,
  PARTS,
} from "./opinions.js";
import { outbox } from "./outbox.js";
import { redrawPlayhead } from "../playback/playhead.js";
import { followEvent, goToUnreviewed, stopIndexOf } from "../playback/selection.js";
import { readSetting, writeSetting } from "../state/settings.js";
import { host, listeners, review, reviewer, state, ui } from "../state/state.js";
import { setStatus } from "../dom/status.js";
import { signOfKind } from "../playback/stops.js";
import { refreshReviews, refusalReason, retryAll, savedText, sendWaiting } from "./sync.js";

// A name by the rules of `check_reviewer` in Python: printable characters and inner spaces; null for an invalid one.
function parseReviewerName(typed) {
  const name = typed.trim();
  return !name || ([...name].length <= 80 && /^(?:[^\p{C}\p{Z}]| )+$/u.test(name)) ? name : null;
}

function setReviewer(typed) {
  const name = parseReviewerName(typed);
  if (name === null) setStatus("This name is not valid: a reviewer's name is 1 to 80 printable characters.");
  else if (name !== review.name) {
    review.name = name;
    setStatus(name ? `You review as ${name}.` : "");
    mergeOpinions();
    retryAll();
    if (name) submitUnnamed();
  }
  find("who").value = reviewer();
}

function setBlind(isBlind) {
  review.isBlind = isBlind;
  drawReview();
  sendWaiting();
}

export function drawReview() {
  const panel = find("review");
  find("tabs").querySelector("[data-tab=review]").hidden = !host.settings.can_review;
  if (!host.settings.can_review) return;
  drawSaveStatus();
  if (document.activeElement !== find("who")) find("who").value = reviewer();
  find("who").disabled = review.signedIn !== null;
  find("blind").checked = review.isBlind;
  const event = state.data ? currentEvent() : null,
    said = event ? opinion(event.key) : NO_OPINION;
  drawEvent(find("event"), event);
  if (!state.data || panel.hidden) return;
  if (panel.dataset.event !== (event?.key ?? "")) {
    panel.dataset.event = event?.key ?? "";
    panel.scrollTop = 0;
    refreshReviews();
  }
  for (const button of find("verdicts").querySelectorAll(".ss-verdict")) {
    button.setAttribute("aria-pressed", button.dataset.verdict === said.verdict);
    button.disabled = !event || !fitsVerdict(event, button.dataset.verdict);
  }
  find("split").disabled = !event?.pair && !event?.other;
  find("split").textContent = event?.other ? "join (S)" : "split (S)";
  for (const option of find("scope").options) option.disabled = !AVAILABLE_SCOPES[option.value]();
  for (const [name, value] of [
    ["tags", said.tags.join(", ")],
    ["note", said.note],
  ]) {
    find(name).disabled = !event;
    fillInput(find(name), event?.key ?? "", value);
  }
  drawOtherOpinions(find("others"), event);
  drawCorrection(event);
}

function drawSaveStatus() {
  const { all, done } = countJudged();
  find("done").textContent = `${reviewer() ? done : 0} of ${all} judged`;
  find("saved").textContent = savedText();
  find("saved").classList.toggle("ss-unsaved", Boolean(review.problem) || outbox.all().some(refusalReason));
}

function otherOpinions(key) {
  return (review.state?.opinions[key] ?? []).filter((said) => said.reviewer !== reviewer());
}

// Other reviewers' opinions on the event, and on the reference of its pair where they differ.
function drawOtherOpinions(box, event) {
  const ofReference = event?.pair ? otherOpinions(event.pair.key) : [];
  const isNews = (said, known) =>
    known.every((other) => other.reviewer !== said.reviewer || PARTS.some((part) => !isSame(said[part], other[part])));
  const ofEvent = event ? otherOpinions(event.key) : [];
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
  );
}

export function giveVerdict(verdict) {
  const event = currentEvent();
  if (!fitsVerdict(event, verdict)) return setStatus(`“${verdict}” does not fit: this is a ${describeEvent(event)}.`);
  submitForEvent("verdict", { verdict }, () => {
    if (eventByKey(event.key)) goToUnreviewed(`“${verdict}”: ${describeEvent(event)}. `);
  });
}

// Draws the event that keys judge, on every tab.
function drawEvent(box, event) {
  box.hidden = !host.settings.can_review || !state.data || !state.data.events.length;
  if (box.hidden) return;
  const keys = createNode("span", "ss-dim", "1–7 judge ");
  if (!event) return box.replaceChildren(keys, createNode("span", "", "nothing: no event is selected"));
  const turn = event.turn === null ? null : state.data.turns[event.turn];
  const name = createNode(
    "b",
    "",
    `${clockText(eventTime(event))} ${KIND_LABELS[event.kind] ?? ROLE_LABELS[event.role]}`,
  );
  const parts = [keys, name, " ", createNode("span", "", correctedTurn(event)?.text ?? event.text)];
  const found = stopIndexOf(event);
  if (event.pair) parts.push(createNode("span", "ss-tag", "and its reference"));
  if (event.other)
    parts.push(
      createNode("span", "ss-tag", event.kind === "reference" ? "without the model's event" : "without its reference"),
    );
  if (found !== null)
    parts.push(
      createNode("span", "ss-tag", `${signOfKind(state.data.stops[found].kind)} ${state.data.stops[found].kind}`),
    );
  const given = opinion(event.key).verdict;
  if (given) parts.push(createNode("span", "ss-tag ss-mine", `your verdict: ${given}`));
  if (turn?.link !== null && turn?.link !== undefined && state.data.references[turn.link].text !== event.text)
    parts.push(createQuote("reference", state.data.references[turn.link].text));
  box.replaceChildren(...parts);
}

export function mountReview() {
  review.name = parseReviewerName(readSetting("reviewer")) ?? "";
  review.isBlind = readSetting("blind") === "yes";
  find("verdicts").prepend(
    ...host.settings.verdicts.map((verdict, number) => {
      const button = createNode("button", "ss-verdict");
      button.type = "button";
      button.dataset.verdict = verdict;
      button.append(createNode("kbd", "", number + 1), verdict);
      button.addEventListener("click", () => {
        if (state.data) giveVerdict(verdict);
      });
      return button;
    }),
  );
  find("who").addEventListener("change", (event) => {
    setReviewer(event.target.value);
    writeSetting("reviewer", review.name);
  });
  find("blind").addEventListener("change", (event) => {
    setBlind(event.target.checked);
    writeSetting("blind", review.isBlind ? "yes" : "no");
  });
  // the reviews tab's
  document.addEventListener("stepscope:reviewer", (event) => setReviewer(event.detail), { signal: listeners.signal });
  document.addEventListener("stepscope:blind", (event) => setBlind(event.detail === "yes"), {
    signal: listeners.signal,
  });
  find("scope").addEventListener("change", (event) => {
    review.scope = event.target.value;
    if (!state.data) return;
    if (currentEvent() && !isInScope(currentEvent())) review.current = null;
    followEvent(ui.video.time);
    layout();
    drawReview();
  });
  find("tags").addEventListener("change", (event) =>
    submitInput(event.target, (text, done) =>
      submitForEvent(
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
  find("note").addEventListener("change", (event) =>
    submitInput(event.target, (note, done) => submitForEvent("note", { note }, done)),
  );
  find("review").addEventListener("keydown", (event) => {
    const box = event.target;
    if (!box.matches("input, textarea") || (event.key !== "Escape" && (event.key !== "Enter" || event.shiftKey)))
      return;
    event.preventDefault();
    if (box === find("edited") && event.key === "Escape") resetEdited();
    const isHeld = event.key === "Enter" && review.drafts.has(draftKey(box));
    box.blur(); // submits the text
    if (isHeld && review.unnamed.length) return find("who").focus();
    if (isHeld && review.drafts.has(draftKey(box))) box.dispatchEvent(new Event("change"));
    if (document.activeElement !== document.body) return; // the name is missing
    if (box === find("who") && !reviewer()) dropUnnamed();
    ui.canvas.focus({ preventScroll: true });
  });
  find("review").addEventListener("focusin", (event) => {
    if (event.target.matches(`${EVENT_INPUTS}, .ss-addedText`)) ui.video.pause();
  });
  // the selection does not follow the playhead while the user types
  find("review").addEventListener("focusout", redrawPlayhead);
  document.addEventListener(
    "visibilitychange",
    () => {
      if (!document.hidden) retryAll();
    },
    { signal: listeners.signal },
  );
}
