// Corrections of the reference as a layer over it: text, time, new and deleted turns.

import { submitAction } from "./actions.js";
import { clockText, gridFrame } from "../state/data.js";
import { createNode, find } from "../dom/dom.js";
import { draftKey, fillInput, submitInput } from "./drafts.js";
import { conflictText, describeAction, describeEvent } from "./event_words.js";
import { correctedTurn, lastTurn, requestScoring } from "./layer.js";
import { currentEvent, eventByKey, referenceOf } from "./opinions.js";
import { layer, listeners, review, state, ui } from "../state/state.js";
import { seek } from "../playback/playhead.js";
import { goToEvent } from "../playback/selection.js";
import { setStatus } from "../dom/status.js";
import { openTab } from "../panels/tabs.js";
import { drawTime, mountSpans, snapSpan, turnInside } from "./spans.js";

let markedSpan = null; // of the turn whose text is being typed, if a key has marked one

function submitCorrection(kind, turn, more = {}, done) {
  return submitAction("correction", { correction: { kind, turn, ...more } }, done);
}

// The reference turn that can be corrected, from the layer, deleted or not; null for another event.
function correctableTurn(selected) {
  const event = referenceOf(selected);
  if (!event || !layer()) return null;
  const turn = lastTurn(event.key);
  return turn && { ...turn, isDeleted: !correctedTurn(event) };
}

// The reason why the layer is missing: for example, the server has not sent it yet.
function missingLayerText() {
  if (review.state) return "There is no reference to correct.";
  return review.problem
    ? `The reviews of this video could not be read: ${review.problem}.`
    : "The reviews of this video are still being read: press again in a moment.";
}

function withCorrectableTurn(work) {
  const turn = correctableTurn(currentEvent());
  if (turn) return work(turn);
  const event = currentEvent(),
    selected = event ? `, and this is ${describeEvent(event)}` : ": select one";
  setStatus(layer() ? `Only a turn of the reference can be corrected${selected}.` : missingLayerText());
}

// Moves a turn. An update moves together with all updates at its time: a step's end is the start of the next.
export function moveTurn(turn, time) {
  const last = (state.data.expected_frames - 1) / state.data.fps;
  const snapped = Math.round(Math.min(last, Math.max(0, time)) * state.data.fps) / state.data.fps;
  if (Math.abs(snapped - turn.time) < 1e-6) return;
  if (typeof turn.end === "number") return setSpan(turn, snapSpan(snapped, snapped + turn.end - turn.time));
  const alike = layer().turns.filter(
    (other) => other.role === "update" && Math.abs(other.name.time_s - turn.name.time_s) < 1e-3,
  );
  submitCorrection(
    turn.role === "update" && alike.length > 1 && find("together").checked ? "boundary" : "time",
    turn.name,
    { time_s: snapped },
  );
}

// Sets the reply span of a turn; an `end_s` of null makes it an instant.
export function setSpan(turn, { time_s, end_s }) {
  if (Math.abs(time_s - turn.time) > 1e-6 || end_s !== (turn.end ?? null))
    submitCorrection("span", turn.name, { time_s, end_s });
}

// Gives a marked span to the turn inside it, or opens the form of a new turn.
function finishSpan(span) {
  const turn = turnInside(span),
    words = `${clockText(span.time_s)} to ${clockText(span.end_s)}`;
  if (turn) {
    setSpan(turn, span);
    return setStatus(`The reply span of “${turn.text.slice(0, 60)}” is ${words}. Z takes it back.`);
  }
  ui.video.pause();
  seek(span.time_s);
  addTurn();
  markedSpan = span;
  find("addedRole").value = "assistant";
  setStatus(`Type the reply of ${words}; Enter adds it.`);
}

export function nudge(by) {
  withCorrectableTurn((turn) =>
    turn.isDeleted ? setStatus("It is deleted: D brings it back.") : moveTurn(turn, turn.time + by / state.data.fps),
  );
}

export function editText() {
  withCorrectableTurn(() => {
    openTab("review");
    find("edited").focus();
    find("edited").select();
  });
}

// Drops the text that is typed for the turn.
export function resetEdited() {
  const turn = correctableTurn(currentEvent()),
    box = find("edited");
  review.drafts.delete(draftKey(box));
  if (turn) box.value = turn.text;
}

export function deleteTurn() {
  withCorrectableTurn((turn) => {
    const correction = { kind: turn.isDeleted ? "add" : "delete", turn: turn.name },
      event = referenceOf(currentEvent());
    submitCorrection(correction.kind, correction.turn, {}, () => {
      if (!review.problem) setStatus(describeAction({ correction }, event));
    });
  });
}

export function addTurn() {
  if (!layer()) return setStatus(missingLayerText());
  openTab("review");
  markedSpan = null;
  find("adding").hidden = false;
  find("addedText").focus();
}

// Passes a question or an answer of the panel below the player to the reference: as a new turn, whose form Enter
// submits, or as the text of the assistant turn that is nearest in time.
function proposeTurn({ as, text, time_s }) {
  if (!layer()) return setStatus(missingLayerText());
  ui.video.pause();
  find("said").scrollIntoView({ block: "nearest" });
  if (as === "correction") return correctNearest(text, time_s);
  seek(time_s);
  addTurn();
  find("addedRole").value = as;
  find("addedText").value = text;
}

function correctNearest(text, time_s) {
  const turns = layer().turns.filter((turn) => turn.role === "assistant");
  if (!turns.length) return setStatus("The reference has no assistant turn to correct.");
  const distance = (turn) => Math.abs(turn.time - time_s),
    nearest = turns.reduce((best, turn) => (distance(turn) < distance(best) ? turn : best));
  openTab("review");
  goToEvent(eventByKey(nearest.key));
  if (nearest.text === text) return setStatus("The reference says this already.");
  const correction = { kind: "text", turn: nearest.name, text };
  submitCorrection(correction.kind, correction.turn, { text }, () => {
    if (!review.problem) setStatus(describeAction({ correction }, null));
  });
}

function finishAdding() {
  const text = find("addedText").value.trim(),
    role = find("addedRole").value;
  if (!layer()) return;
  if (!text) return setStatus("Type the text to add.");
  const span = role === "assistant" ? markedSpan : null;
  const frame = Math.min(state.data.expected_frames - 1, gridFrame(state.data, span?.time_s ?? ui.video.time)),
    time_s = Math.round((frame / state.data.fps) * 1000) / 1000;
  const alike = layer().turns.filter(
    (turn) => turn.role === role && turn.name.text === text && Math.abs(turn.name.time_s - time_s) < 1e-3,
  );
  const name = { role, time_s, text, number: alike.length };
  submitCorrection("add", name, {}, () => {
    if (span) submitCorrection("span", name, { time_s, end_s: span.end_s });
    markedSpan = null;
    find("addedText").value = "";
    find("adding").hidden = true;
    ui.canvas.focus({ preventScroll: true });
  });
}

export function drawCorrection(event) {
  const turn = correctableTurn(event),
    box = find("correction");
  box.hidden = !turn;
  find("add").hidden = find("against").parentElement.hidden = !layer();
  const troubles = (layer()?.conflicts ?? [])
    .filter((found) => found.key === referenceOf(event)?.key)
    .map(conflictText);
  find("troubles").replaceChildren(
    ...[...troubles, ...(layer()?.unusable ?? []).map((reason) => `Does not fit: ${reason}`)].map((words) =>
      createNode("p", "ss-failure", words),
    ),
  );
  if (!turn) return;
  const words = find("edited");
  words.disabled = Boolean(turn.isDeleted);
  fillInput(words, turn.key, turn.text);
  drawTime(turn);
  find("delete").textContent = turn.isDeleted ? "bring back (D)" : "delete (D)";
  const original = turn.is_added
    ? "added"
    : turn.isDeleted
      ? "deleted"
      : [
          turn.text !== turn.name.text && `was “${turn.name.text}”`,
          turn.time !== turn.name.time_s && `was at ${turn.name.time_s.toFixed(2)} s`,
        ]
          .filter(Boolean)
          .join(", ");
  find("original").textContent = [original, turn.reviewers?.length ? `by ${turn.reviewers.join(", ")}` : ""]
    .filter(Boolean)
    .join(", ");
  find("together").parentElement.hidden = turn.role !== "update";
}

export function mountCorrections() {
  document.addEventListener("stepscope:propose", (event) => proposeTurn(event.detail), { signal: listeners.signal });
  mountSpans(finishSpan);
  find("instant").addEventListener("click", () =>
    withCorrectableTurn((turn) => setSpan(turn, { time_s: turn.time, end_s: null })),
  );
  find("edited").addEventListener("change", (event) =>
    submitInput(event.target, (text, done) =>
      withCorrectableTurn((turn) =>
        submitCorrection(turn.role === "update" ? "update" : "text", turn.name, { text: text.trim() }, done),
      ),
    ),
  );
  find("addedText").addEventListener("keydown", (event) => {
    if (event.key === "Escape") find("adding").hidden = true;
    if (event.key === "Enter") {
      event.stopPropagation();
      finishAdding();
    }
  });
  find("against").addEventListener("change", (event) => {
    review.wantsCorrected = event.target.checked;
    requestScoring();
  });
}
