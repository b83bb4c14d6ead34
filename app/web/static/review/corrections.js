// Corrections of the reference as a layer over it: text, time, new and deleted turns.

import { submitAction } from "./actions.js";
import { clockText, gridFrame, parseTime } from "../state/data.js";
import { createNode, showTurns } from "../dom/dom.js";
import { draftKey, fillInput, submitInput } from "./drafts.js";
import { conflictText, describeAction, describeEvent } from "./event_words.js";
import { correctedTurn, lastTurn, requestScoring } from "./layer.js";
import { currentEvent, eventByKey, referenceOf } from "./opinions.js";
import { seek } from "../playback/playhead.js";
import { goToEvent } from "../playback/selection.js";
import { keepSetting, setStatus } from "../dom/status.js";
import { openTab } from "../panels/tabs.js";
import { onsetsOf, snapTime, stepTime } from "./snap.js";
import { drawTime, mountSpans, snapSpan, turnInside } from "./spans.js";
import { keepText, mountTemplates } from "./templates.js";
import { readSetting } from "../state/settings.js";

function submitCorrection(player, kind, turn, more = {}, done) {
  return submitAction(player, "correction", { correction: { kind, turn, ...more } }, done);
}

// The reference turn that can be corrected, from the layer, deleted or not; null for another event.
function correctableTurn(player, selected) {
  const event = referenceOf(selected);
  if (!event || !player.layer) return null;
  const turn = lastTurn(player, event.key);
  return turn && { ...turn, isDeleted: !correctedTurn(player, event) };
}

// The reason why the layer is missing: for example, the server has not sent it yet.
function missingLayerText(player) {
  if (player.review.state) return "There is no reference to correct.";
  return player.review.problem
    ? `The reviews of this video could not be read: ${player.review.problem}.`
    : "The reviews of this video are still being read: press again in a moment.";
}

function withCorrectableTurn(player, work) {
  const turn = correctableTurn(player, currentEvent(player));
  if (turn) return work(turn);
  const event = currentEvent(player),
    selected = event ? `, and this is ${describeEvent(player, event)}` : ": select one";
  setStatus(
    player,
    player.layer ? `Only a turn of the reference can be corrected${selected}.` : missingLayerText(player),
  );
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
  const alike = player.layer.turns.filter(
    (other) => other.role === "update" && Math.abs(other.name.time_s - turn.name.time_s) < 1e-3,
  );
  submitCorrection(
    player,
    turn.role === "update" && alike.length > 1 && player.find("together").checked ? "boundary" : "time",
    turn.name,
    { time_s },
  );
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
    words = `${clockText(span.time_s)} to ${clockText(span.end_s)}`;
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
  withCorrectableTurn(player, (turn) =>
    turn.isDeleted
      ? setStatus(player, "It is deleted: D brings it back.")
      : moveTurn(player, turn, stepTime(player, turn.time, by)),
  );
}

export function editText(player) {
  withCorrectableTurn(player, () => {
    openTab(player, "review");
    player.find("edited").focus();
    player.find("edited").select();
  });
}

// Drops the text that is typed for the turn.
export function resetEdited(player) {
  const turn = correctableTurn(player, currentEvent(player)),
    box = player.find("edited");
  player.review.drafts.delete(draftKey(box));
  if (turn) box.value = turn.text;
}

export function deleteTurn(player) {
  withCorrectableTurn(player, (turn) => {
    const correction = { kind: turn.isDeleted ? "add" : "delete", turn: turn.name },
      event = referenceOf(currentEvent(player));
    submitCorrection(player, correction.kind, correction.turn, {}, () => {
      if (!player.review.problem) setStatus(player, describeAction(player, { correction }, event));
    });
  });
}

export function addTurn(player) {
  if (!player.layer) return setStatus(player, missingLayerText(player));
  openTab(player, "review");
  player.review.markedSpan = null;
  player.find("adding").hidden = false;
  player.find("addedText").focus();
}

// Passes a question or an answer of the panel beside the player to the reference: as a new turn, whose form Enter
// submits, or as the text of the assistant turn that is nearest in time.
function proposeTurn(player, { as, text, time_s }) {
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
  const correction = { kind: "text", turn: nearest.name, text };
  submitCorrection(player, correction.kind, correction.turn, { text }, () => {
    if (!player.review.problem) setStatus(player, describeAction(player, { correction }, null));
  });
}

function finishAdding(player) {
  const text = player.find("addedText").value.trim(),
    role = player.find("addedRole").value;
  if (!player.layer) return;
  if (!text) return setStatus(player, "Type the text to add.");
  const span = role === "assistant" ? player.review.markedSpan : null;
  const frame = Math.min(player.data.expected_frames - 1, gridFrame(player.data, span?.time_s ?? player.video.time)),
    time_s = Math.round((frame / player.data.fps) * 1000) / 1000;
  const alike = player.layer.turns.filter(
    (turn) => turn.role === role && turn.name.text === text && Math.abs(turn.name.time_s - time_s) < 1e-3,
  );
  const name = { role, time_s, text, number: alike.length };
  if (role !== "update") keepText(text);
  submitCorrection(player, "add", name, {}, () => {
    if (span) submitCorrection(player, "span", name, { time_s, end_s: span.end_s });
    player.review.markedSpan = null;
    player.find("addedText").value = "";
    player.find("adding").hidden = true;
    player.canvas.focus({ preventScroll: true });
  });
}

export function drawCorrection(player, event) {
  const turn = correctableTurn(player, event),
    box = player.find("correction");
  box.hidden = !turn;
  player.find("add").hidden = player.find("against").parentElement.hidden = !player.layer;
  const troubles = (player.layer?.conflicts ?? [])
    .filter((found) => found.key === referenceOf(event)?.key)
    .map(conflictText);
  player
    .find("troubles")
    .replaceChildren(
      ...[...troubles, ...(player.layer?.unusable ?? []).map((reason) => `Does not fit: ${reason}`)].map((words) =>
        createNode("p", "ss-failure", words),
      ),
    );
  if (!turn) return;
  const words = player.find("edited");
  words.disabled = Boolean(turn.isDeleted);
  fillInput(player, words, turn.key, turn.text);
  drawTime(player, turn);
  player.find("delete").textContent = turn.isDeleted ? "bring back (D)" : "delete (D)";
  const original = turn.is_added
    ? "added"
    : turn.isDeleted
      ? "deleted"
      : [
          turn.text !== turn.name.text && `was “${turn.name.text}”`,
          turn.time !== turn.name.time_s && `was at ${clockText(turn.name.time_s, 3)}`,
        ]
          .filter(Boolean)
          .join(", ");
  const from = [original, turn.reviewers?.length ? `by ${turn.reviewers.join(", ")}` : ""].filter(Boolean).join(", ");
  player.find("original").textContent = showTurns(from);
  player.find("together").parentElement.hidden = turn.role !== "update";
  player.find("snap").querySelector("[value=sound]").disabled = !onsetsOf(player.data).length;
}

export function mountCorrections(player) {
  document.addEventListener("stepscope:propose", (event) => proposeTurn(player, event.detail), {
    signal: player.listeners.signal,
  });
  mountSpans(player, (span) => finishSpan(player, span));
  mountTemplates(player, player.find("edited"), () => correctableTurn(player, currentEvent(player))?.role);
  mountTemplates(player, player.find("addedText"), () => player.find("addedRole").value);
  const snap = player.find("snap");
  snap.value = readSetting("snap", "frame");
  if (!snap.value) snap.value = "frame";
  snap.addEventListener("change", () => keepSetting(player, "snap", snap.value));
  player
    .find("instant")
    .addEventListener("click", () =>
      withCorrectableTurn(player, (turn) => setSpan(player, turn, { time_s: turn.time, end_s: null })),
    );
  player.find("edited").addEventListener("change", (event) =>
    submitInput(player, event.target, (text, done) =>
      withCorrectableTurn(player, (turn) => {
        if (turn.role !== "update") keepText(text.trim());
        submitCorrection(player, turn.role === "update" ? "update" : "text", turn.name, { text: text.trim() }, done);
      }),
    ),
  );
  for (const name of ["when", "until"])
    player.find(name).addEventListener("change", (event) => setTypedTime(player, event.target));
  player.find("addedText").addEventListener("keydown", (event) => {
    if (event.key === "Escape") player.find("adding").hidden = true;
    if (event.key === "Enter") {
      event.stopPropagation();
      finishAdding(player);
    }
  });
  player.find("against").addEventListener("change", (event) => {
    player.review.wantsCorrected = event.target.checked;
    requestScoring(player);
  });
}
