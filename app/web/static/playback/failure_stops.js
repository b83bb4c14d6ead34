// Stepping through the stops, and the chips that choose them.

import { requestPaint } from "../timeline/chart.js";
import { clockText, KINDS } from "../state/data.js";
import { createNode, find } from "../dom/dom.js";
import { currentEvent } from "../review/opinions.js";
import { redrawPlayhead } from "./playhead.js";
import { goToFailure, stopIndexOf } from "./selection.js";
import { readSetting, writeSetting } from "../state/settings.js";
import { kinds, review, state, ui } from "../state/state.js";
import { setStatus } from "../dom/status.js";
import {
  canFail,
  collectStops,
  LOW_SIMILARITY,
  lowSimilarityStops,
  momentText,
  parseSimilarity,
  signOfKind,
  stopText,
  whyNoFailures,
} from "./stops.js";

let kindsBefore = null; // the kinds that were chosen before one of them alone

function chipText(kind) {
  return kind === LOW_SIMILARITY ? `${LOW_SIMILARITY} (below ${state.lowSimilarity.toFixed(2)})` : kind;
}

// Updates the stops after a change of the setting; keeps the current stop if it is still one.
function updateStops() {
  const shownStop = state.stopIndex === null ? null : state.data.stops[state.stopIndex];
  state.data.stops = collectStops(state.data);
  const isSame = (stop) =>
    stop === shownStop ||
    (stop.kind === LOW_SIMILARITY && shownStop?.kind === LOW_SIMILARITY && stop.turn === shownStop.turn);
  const number = state.data.stops.findIndex(isSame);
  state.stopIndex = number >= 0 ? number : state.selectedTime === null ? null : stopIndexOf(currentEvent());
  redrawPlayhead();
  ui.drawReview();
  requestPaint();
}

// Whether a stop lies beyond the current place, after it (`by` 1) or before it (-1). The place is the selected stop,
// else the selected event in the order of events (not where its turn was moved away from it), else the playhead: N then
// includes the stops at the playhead's own time. It also includes a stop that a verdict selected, so that N after each
// verdict skips no failure.
function isBeyondPlace(by) {
  const least = by > 0 && state.isAfterVerdict ? 0 : 1;
  if (state.stopIndex !== null) return ({ number }) => by * (number - state.stopIndex) >= least;
  const time = ui.video.time,
    event = currentEvent(),
    isHere = event && Math.abs(event.time - time) < 0.5 / state.data.fps;
  const current = state.selectedTime === null || !isHere ? -1 : orderOfEvent(review.current);
  return ({ failure }) => {
    const order = current < 0 ? -1 : orderOfEvent(failure.key);
    if (order >= 0) return by * (order - current) > 0;
    return by > 0 ? failure.time > time - 0.01 : failure.time < time - 0.01;
  };
}

// The index of an event among the events of the review, a matched pair counted as one; -1 if it is none of them.
function orderOfEvent(key) {
  const unit = review.units.get(key)?.key ?? key;
  return review.events.findIndex((event) => event.key === unit);
}

export function stepFailure(by) {
  const wanted = state.data.stops
    .map((failure, number) => ({ failure, number }))
    .filter(({ failure }) => kinds.has(failure.kind));
  const isBeyond = isBeyondPlace(by);
  const next = by > 0 ? wanted.find(isBeyond) : wanted.findLast(isBeyond);
  if (!canFail(state.data)) return setStatus(whyNoFailures(), true);
  if (!next)
    return setStatus(
      wanted.length
        ? `No failure ${by > 0 ? "after" : "before"} ` +
            `${state.selectedTime === null ? clockText(ui.video.time) : "this one"}.`
        : "No failure of the chosen kinds.",
      true,
    );
  goToFailure(next.number);
  setStatus(
    `${stopText(next.number)}` +
      `${momentText(next.failure) ? `; ${momentText(next.failure)}` : ` at ${clockText(next.failure.time)}`}`,
    true,
  );
}

// Shows the button for the kind of the failure that is shown; null for none.
export function drawOnlyKind(failure) {
  const button = find("only"),
    isOnly = kinds.size === 1 && kinds.has(failure?.kind);
  button.hidden = !failure;
  button.textContent = isOnly ? "all kinds" : "only this kind";
  button.title = isOnly
    ? "Let N and P stop at the other kinds again (8)"
    : "Let N and P stop at this kind of failure only (8)";
}

// Stops only at the kind of the failure that is shown, or again at the kinds chosen before.
export function toggleOnlyKind() {
  if (!canFail(state.data)) return setStatus(whyNoFailures(), true);
  const kind = state.stopIndex === null ? null : state.data.stops[state.stopIndex].kind;
  const isBack = kinds.size === 1 && (kind === null || kinds.has(kind));
  if (kind === null && !isBack) return setStatus("No failure is selected: N goes to the next one.");
  const chosen = isBack ? (kindsBefore ?? Object.keys(KINDS)) : [kind];
  kindsBefore = isBack ? null : (kindsBefore ?? [...kinds]);
  kinds.clear();
  for (const name of chosen) kinds.add(name);
  updateStops();
  drawKinds();
  setStatus(
    isBack ? "N and P stop at all chosen kinds." : `N and P stop only at “${kind}”. 8 chooses the other kinds again.`,
  );
}

export function drawKinds() {
  const counts = { [LOW_SIMILARITY]: lowSimilarityStops(state.data).length };
  for (const failure of state.data.failures) counts[failure.kind] = (counts[failure.kind] ?? 0) + 1;
  find("kinds").replaceChildren(
    ...(canFail(state.data)
      ? [...Object.keys(KINDS), LOW_SIMILARITY].map((kind) => drawChip(kind, counts[kind] ?? 0))
      : []),
  );
  drawSimilarityInput();
}

function drawChip(kind, count) {
  const chip = createNode("button", "ss-kind");
  chip.type = "button";
  chip.dataset.kind = kind;
  chip.setAttribute("aria-pressed", kinds.has(kind));
  chip.disabled = !count && kind !== LOW_SIMILARITY; // another similarity may have some
  chip.addEventListener("click", () => {
    if (!kinds.delete(kind)) kinds.add(kind);
    kindsBefore = null;
    redrawPlayhead();
    chip.setAttribute("aria-pressed", kinds.has(kind));
    if (kind === LOW_SIMILARITY) {
      updateStops();
      drawSimilarityInput();
    }
    requestPaint();
  });
  return labelChip(chip, count);
}

function labelChip(chip, count) {
  const words = chipText(chip.dataset.kind);
  chip.title = `${words}: stop there or not`;
  chip.setAttribute("aria-label", `${words}: ${count}`);
  chip.replaceChildren(`${signOfKind(chip.dataset.kind)} ${count}`, createNode("small", "", words));
  return chip;
}

// Shows the input of the similarity limit beside the ≈ chip while the chip is on.
export function drawSimilarityInput() {
  find("below").hidden = !state.data || !canFail(state.data) || !kinds.has(LOW_SIMILARITY);
  if (document.activeElement !== find("similarity")) find("similarity").value = state.lowSimilarity.toFixed(2);
}

export function mountFailureStops() {
  state.lowSimilarity = parseSimilarity(readSetting("low_similarity")) ?? state.lowSimilarity;
  find("similarity").addEventListener("change", (event) => {
    const typed = parseSimilarity(event.target.value);
    setStatus(
      typed === null
        ? `“${event.target.value.slice(0, 20)}” is not a similarity: a number from 0 to 1 is. It stays ` +
            `${state.lowSimilarity.toFixed(2)}.`
        : "",
    );
    state.lowSimilarity = typed ?? state.lowSimilarity;
    event.target.value = state.lowSimilarity.toFixed(2);
    if (typed === null || !state.data) return;
    writeSetting("low_similarity", state.lowSimilarity.toFixed(2));
    labelChip(find("kinds").querySelector(`[data-kind="${LOW_SIMILARITY}"]`), lowSimilarityStops(state.data).length);
    updateStops();
  });
  find("similarity").addEventListener("keydown", (event) => {
    if (event.key === "Enter") ui.canvas.focus({ preventScroll: true });
  });
}
