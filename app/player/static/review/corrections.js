// Corrections of the reference as a layer over it: text, time, new and deleted turns.

import { fillInput, submitAction, submitInput } from "./actions.js";
import { clockText, correctedText, gridFrame, parseTime } from "../state/data.js";
import { createButton, createNode, draftKey, keepSetting, setStatus, showTurns } from "../dom/dom.js";
import { conflictText, describeAction, describeEvent } from "../events/event_words.js";
import { correctedTurn, lastTurn, requestScoring } from "../state/layer.js";
import { correctedEvent, currentEvent, eventByKey, isSame } from "../events/opinions.js";
import { seek } from "../clock/playhead.js";
import { goToEvent } from "../playback/selection.js";
import { openTab } from "../panels/tabs.js";
import { drawTime, mountSpans, onsetsOf, snapSpan, snapTime, stepTime, turnInside } from "./spans.js";
import { readKept, readSetting, writeSetting } from "../state/settings.js";

const UNDO_MS = 5000;

function submitCorrection(player, kind, turn, more = {}, done) {
  submitAction(player, "correction", { correction: { kind, turn, ...more } }, done);
}

// The reference turn that can be corrected, from the layer, deleted or not; null for another event.
function correctableTurn(player, selected) {
  const event = correctedEvent(player, selected);
  if (!event || !player.layer) return null;
  const turn = lastTurn(player, event.key);
  return turn && { ...turn, isDeleted: !correctedTurn(player, event) };
}

function missingLayerText(player) {
  const isUpload = player.data.reference_digest !== null,
    cure = isUpload ? ": choose a file of one, under Video, task, settings" : "";
  if (player.review.state) return `There is no reference to correct${cure}.`;
  return player.review.problem
    ? `The reviews of this video could not be read: ${player.review.problem}.`
    : "The reviews of this video are still being read: press again in a moment.";
}

function withCorrectableTurn(player, work) {
  const turn = correctableTurn(player, currentEvent(player));
  if (turn) return work(turn);
  const event = currentEvent(player),
    selected = event ? `, and this is ${describeEvent(player, event)}` : ": select one",
    words = `Only a turn of the reference can be corrected${selected}.`;
  setStatus(player, player.layer ? words : missingLayerText(player));
}

// Moves a turn. An update moves together with all updates at its time: a step's end is the start of the next.
export function moveTurn(player, turn, time) {
  const last = (player.data.expected_frames - 1) / player.data.fps;
  const snapped = Math.min(last, Math.max(0, snapTime(player, time)));
  if (Math.abs(snapped - turn.time) < 1e-6) return;
  if (typeof turn.end === "number")
    return setSpan(player, turn, snapSpan(player, snapped, snapped + turn.end - turn.time));
  submitTime(player, turn, snapped);
}

function submitTime(player, turn, time_s) {
  const isAlike = ({ role, name }) => role === "update" && Math.abs(name.time_s - turn.name.time_s) < 1e-3,
    isBoundary = turn.role === "update" && player.layer.turns.filter(isAlike).length > 1;
  submitCorrection(player, isBoundary && player.find("together").checked ? "boundary" : "time", turn.name, { time_s });
}

// Sets a typed time to the millisecond: the start of a turn, or the end of its reply span. The server checks it.
function setTypedTime(player, box) {
  withCorrectableTurn(player, (turn) => {
    const typed = Math.round(1000 * parseTime(box.value.trim())) / 1000,
      isStart = box === player.find("when");
    drawTime(player, turn);
    if (!Number.isFinite(typed))
      return setStatus(player, "Type a time as seconds, such as 12.345, or as minutes and seconds, such as 1:02.345.");
    if (!isStart) setSpan(player, turn, { time_s: turn.time, end_s: typed });
    else if (typeof turn.end === "number") setSpan(player, turn, { time_s: typed, end_s: turn.end });
    else if (Math.abs(typed - turn.time) > 5e-4) submitTime(player, turn, typed);
  });
}

// Sets the reply span of a turn; an `end_s` of null makes it an instant.
export function setSpan(player, turn, { time_s, end_s }) {
  if (Math.abs(time_s - turn.time) > 1e-6 || end_s !== (turn.end ?? null))
    submitCorrection(player, "span", turn.name, { time_s, end_s });
}

// Gives a marked span to the turn inside it, or opens the form of a new turn.
function finishSpan(player, span) {
  const turn = turnInside(player, span),
    words = `${correctedText(span.time_s)} to ${correctedText(span.end_s)}`;
  if (turn) {
    setSpan(player, turn, span);
    return setStatus(player, `The reply span of “${turn.text.slice(0, 60)}” is ${words}. Z takes it back.`);
  }
  player.video.pause();
  seek(player, span.time_s);
  addTurn(player);
  player.review.markedSpan = span;
  player.find("addedRole").value = "assistant";
  setStatus(player, `Type the reply of ${words}; Enter adds it.`);
}

export function nudge(player, by) {
  withCorrectableTurn(player, (turn) => {
    if (turn.isDeleted) setStatus(player, "It is deleted: D brings it back.");
    else moveTurn(player, turn, stepTime(player, turn.time, by));
  });
}

export function editText(player) {
  withCorrectableTurn(player, () => {
    openTab(player, "review");
    player.find("edited").focus();
    player.find("edited").select();
  });
}

export function resetEdited(player) {
  const turn = correctableTurn(player, currentEvent(player)),
    box = player.find("edited");
  player.review.drafts.delete(draftKey(box));
  if (turn) box.value = turn.text;
}

export function deleteTurn(player) {
  withCorrectableTurn(player, (turn) => {
    const event = correctedEvent(player, currentEvent(player)),
      isOfTurn = ({ correction: one, video_id: video }) =>
        video === player.data.video_id && ["delete", "add"].includes(one?.kind) && isSame(one.turn, turn.name);
    if (player.outbox.all().some(isOfTurn)) return setStatus(player, "Not saved yet: D works again once it is.");
    submitAndSay(player, { kind: turn.isDeleted ? "add" : "delete", turn: turn.name }, event);
  });
}

// Shows the button that takes a deletion back, for five seconds.
function offerUndo(player) {
  const button = player.find("undo");
  clearTimeout(player.review.undoTimer);
  button.hidden = false;
  player.review.undoTimer = setTimeout(() => (button.hidden = true), UNDO_MS);
}

function submitAndSay(player, correction, event) {
  submitAction(player, "correction", { correction }, () => {
    if (!player.review.problem) setStatus(player, describeAction(player, { correction }, event));
    if (correction.kind === "delete") offerUndo(player);
  });
}

// A correction that a program proposes: it changes nothing until a person accepts it as their own.
export function drawProposal(player, { reviewer, kind, turn, text, time_s }) {
  const value = kind === "delete" ? "" : ` ${text === null ? clockText(time_s) : `“${text}”`}`,
    accept = () => submitAndSay(player, { kind, turn, text, time_s }, correctedEvent(player, currentEvent(player)));
  return createNode("p", "ss-other", [
    createNode("b", "", reviewer),
    ` proposes: ${kind}${value} `,
    createButton("", "accept", accept),
  ]);
}

export function addTurn(player) {
  if (!player.layer) return setStatus(player, missingLayerText(player));
  openTab(player, "review");
  player.review.markedSpan = null;
  player.find("adding").hidden = false;
  player.find("addedText").focus();
  const at = correctedText(frameTime(player, player.video.time));
  setStatus(player, `Type the text: Enter adds it at ${at}, the frame at the playhead.`);
}

// The time of the frame at a time, or of the last one, in whole milliseconds.
function frameTime({ data }, time) {
  const frame = Math.min(data.expected_frames - 1, gridFrame(data, time));
  return Math.round((frame / data.fps) * 1000) / 1000;
}

// Passes a question or an answer of the panel beside the player to the reference: as a new turn, whose form Enter
// submits, or as the text of the assistant turn that is nearest in time.
export function proposeTurn(player, { as, text, time_s }) {
  if (!player.settings.can_review) return; // the player of live sessions
  if (!player.layer) return setStatus(player, missingLayerText(player));
  player.video.pause();
  player.find("said").scrollIntoView({ block: "nearest" });
  if (as === "correction") return correctNearest(player, text, time_s);
  seek(player, time_s);
  addTurn(player);
  player.find("addedRole").value = as;
  player.find("addedText").value = text;
}

function correctNearest(player, text, time_s) {
  const turns = player.layer.turns.filter((turn) => turn.role === "assistant");
  if (!turns.length) return setStatus(player, "The reference has no assistant turn to correct.");
  const distance = (turn) => Math.abs(turn.time - time_s),
    nearest = turns.reduce((best, turn) => (distance(turn) < distance(best) ? turn : best));
  openTab(player, "review");
  goToEvent(player, eventByKey(player, nearest.key));
  if (nearest.text === text) return setStatus(player, "The reference says this already.");
  submitAndSay(player, { kind: "text", turn: nearest.name, text }, null);
}

function finishAdding(player) {
  const text = player.find("addedText").value.trim(),
    role = player.find("addedRole").value;
  if (!player.layer) return;
  if (!text) return setStatus(player, "Type the text to add.");
  const span = role === "assistant" ? player.review.markedSpan : null;
  const time_s = frameTime(player, span?.time_s ?? player.video.time);
  const isAlike = ({ role: other, name: { text: said, time_s: at } }) =>
    other === role && said === text && Math.abs(at - time_s) < 1e-3;
  const name = { role, time_s, text, number: player.layer.turns.filter(isAlike).length };
  if (role !== "update") keepText(text);
  submitCorrection(player, "add", name, {}, () => {
    if (span) submitCorrection(player, "span", name, { time_s, end_s: span.end_s });
    player.review.markedSpan = null;
    player.find("addedText").value = "";
    player.find("adding").hidden = true;
    player.focus();
  });
}

export function drawCorrection(player, event) {
  const turn = correctableTurn(player, event),
    box = player.find("correction");
  box.hidden = !turn;
  player.find("add").hidden = player.find("against").parentElement.hidden = !player.layer;
  const conflicts = (player.layer?.conflicts ?? []).filter(({ key }) => key === correctedEvent(player, event)?.key),
    unusable = (player.layer?.unusable ?? []).map((reason) => `Does not fit: ${reason}`),
    troubles = [...conflicts.map(conflictText), ...unusable];
  player.find("troubles").replaceChildren(...troubles.map((words) => createNode("p", "ss-failure", words)));
  if (!turn) return;
  const words = player.find("edited");
  words.disabled = Boolean(turn.isDeleted);
  fillInput(player, words, turn.key, turn.text);
  drawTime(player, turn);
  player.find("delete").textContent = turn.isDeleted ? "bring back (D)" : "delete (D)";
  const changes = [
    turn.text !== turn.name.text && `was “${turn.name.text}”`,
    turn.time !== turn.name.time_s && `was at ${clockText(turn.name.time_s, 3)}`,
  ];
  const original = turn.is_added ? ["added"] : turn.isDeleted ? ["deleted"] : changes,
    from = [...original, turn.reviewers?.length > 0 && `by ${turn.reviewers.join(", ")}`].filter(Boolean);
  player.find("original").textContent = showTurns(from.join(", "));
  player.find("together").parentElement.hidden = turn.role !== "update";
  player.find("snap").querySelector("[value=sound]").disabled = !onsetsOf(player.data).length;
}

export function mountCorrections(player) {
  mountSpans(player, (span) => finishSpan(player, span));
  mountTemplates(player, player.find("edited"), () => correctableTurn(player, currentEvent(player))?.role);
  mountTemplates(player, player.find("addedText"), () => player.find("addedRole").value);
  const snap = player.find("snap");
  snap.value = readSetting("snap", "frame");
  if (!snap.value) snap.value = "frame";
  player.listen("snap", "change", () => keepSetting(player, "snap", snap.value));
  player.listen("instant", "click", () =>
    withCorrectableTurn(player, (turn) => setSpan(player, turn, { time_s: turn.time, end_s: null })),
  );
  const submitText = (typed, done) =>
    withCorrectableTurn(player, (turn) => {
      const text = typed.trim();
      if (turn.role !== "update") keepText(text);
      submitCorrection(player, turn.role === "update" ? "update" : "text", turn.name, { text }, done);
    });
  player.listen("edited", "change", ({ target }) => submitInput(player, target, submitText));
  for (const name of ["when", "until"]) player.listen(name, "change", ({ target }) => setTypedTime(player, target));
  player.listen("addedText", "keydown", (event) => {
    if (event.key === "Escape") player.find("adding").hidden = true;
    if (event.key !== "Enter") return;
    event.stopPropagation();
    finishAdding(player);
  });
  player.listen("against", "change", ({ target }) => {
    player.review.wantsCorrected = target.checked;
    requestScoring(player);
  });
}

const MOST_KEPT = 40;

function typedTexts() {
  const texts = readKept("texts", "localStorage");
  return Array.isArray(texts) ? texts.filter((text) => typeof text === "string") : [];
}

function keepText(text) {
  const others = typedTexts().filter((other) => other !== text);
  if (text) writeSetting("texts", JSON.stringify([text, ...others].slice(0, MOST_KEPT)));
}

// The texts that a turn of a role can have, without repeats.
function templatesFor(player, role) {
  if (role === "update") return player.data.steps.flatMap(({ id }) => [`${id}->start`, `${id}->complete`]);
  const texts = player.layer.turns.filter((turn) => turn.role === role).map(({ text }) => text.trim());
  return [...new Set([...typedTexts(), ...texts])];
}

// Offers the texts of `roleOf()` in a text box while it has the focus.
function mountTemplates(player, box, roleOf) {
  const list = createNode("datalist");
  list.id = `${player.settings.video_id}-${box.className}-texts`;
  box.after(list);
  box.setAttribute("list", list.id);
  box.addEventListener("focus", () => {
    const role = player.data && player.layer ? roleOf() : null;
    const options = role ? templatesFor(player, role) : [];
    list.replaceChildren(...options.map((value) => Object.assign(createNode("option"), { value })));
  });
}
