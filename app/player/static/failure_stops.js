// Stepping through the stops, and the chips that choose them.

import { askPaint } from "./chart.js";
import { clockText, KINDS } from "./data.js";
import { find, node } from "./dom.js";
import { currentEvent } from "./opinions.js";
import { drawAgain } from "./playhead.js";
import { failureOf, goToFailure } from "./selection.js";
import { remember, remembered } from "./settings.js";
import { kinds, state, ui } from "./state.js";
import { say } from "./status.js";
import { canFail, LOW, lowTexts, signOf, similarityOf, stopsOf, whyNoFailures } from "./stops.js";

function chipWords(kind) { return kind === LOW ? `${LOW} (below ${state.lowSimilarity.toFixed(2)})` : kind; }

// The setting has changed; the stop that is shown stays if it still is one.
function findStops() {
  const shownStop = state.cursor === null ? null : state.data.stops[state.cursor];
  state.data.stops = stopsOf(state.data);
  const isSame = (stop) => stop === shownStop || stop.kind === LOW && shownStop?.kind === LOW && stop.turn === shownStop.turn;
  const number = state.data.stops.findIndex(isSame);
  state.cursor = number >= 0 ? number : state.held === null ? null : failureOf(currentEvent());
  drawAgain();
  ui.drawReview();
  askPaint();
}

export function stepFailure(by) {
  const time = ui.video.time;
  const wanted = state.data.stops.map((failure, number) => ({ failure, number })).filter(({ failure }) => kinds.has(failure.kind));
  const isBeyond = ({ failure, number }) => (state.cursor !== null ? by * (number - state.cursor) > 0 : by * (failure.time - time) > 0.01);
  const next = by > 0 ? wanted.find(isBeyond) : wanted.findLast(isBeyond);
  if (!canFail(state.data)) return say(whyNoFailures());
  if (!next) return say(wanted.length ? `No failure ${by > 0 ? "after" : "before"} this one.` : "No failure of the chosen kinds.", true);
  goToFailure(next.number);
  const place = wanted.indexOf(next) + 1;
  say(`${signOf(next.failure.kind)} ${next.failure.kind} (${place} of ${wanted.length}) at ${clockText(next.failure.time)}`, true);
}

export function drawKinds() {
  const counts = { [LOW]: lowTexts(state.data).length };
  for (const failure of state.data.failures) counts[failure.kind] = (counts[failure.kind] ?? 0) + 1;
  find("kinds").replaceChildren(...(canFail(state.data) ? [...Object.keys(KINDS), LOW].map((kind) => drawChip(kind, counts[kind] ?? 0)) : []));
  drawBelow();
}

function drawChip(kind, count) {
  const chip = node("button", "ss-kind");
  chip.type = "button";
  chip.dataset.kind = kind;
  chip.setAttribute("aria-pressed", kinds.has(kind));
  chip.disabled = !count && kind !== LOW; // at another similarity there may be some
  chip.addEventListener("click", () => {
    if (!kinds.delete(kind)) kinds.add(kind);
    chip.setAttribute("aria-pressed", kinds.has(kind));
    if (kind === LOW) { findStops(); drawBelow(); }
    askPaint();
  });
  return nameChip(chip, count);
}

function nameChip(chip, count) {
  const words = chipWords(chip.dataset.kind);
  chip.title = `${words}: stop there or not`;
  chip.setAttribute("aria-label", `${words}: ${count}`);
  chip.replaceChildren(`${signOf(chip.dataset.kind)} ${count}`, node("small", "", words));
  return chip;
}

// The box of the similarity below which ≈ stops stands beside that chip while it is on.
export function drawBelow() {
  find("below").hidden = !state.data || !canFail(state.data) || !kinds.has(LOW);
  if (document.activeElement !== find("similarity")) find("similarity").value = state.lowSimilarity.toFixed(2);
}

export function mountFailureStops() {
  state.lowSimilarity = similarityOf(remembered("low_similarity")) ?? state.lowSimilarity;
  find("similarity").addEventListener("change", (event) => {
    const typed = similarityOf(event.target.value);
    say(typed === null ? `“${event.target.value.slice(0, 20)}” is not a similarity: a number from 0 to 1 is. It stays ${state.lowSimilarity.toFixed(2)}.` : "");
    state.lowSimilarity = typed ?? state.lowSimilarity;
    event.target.value = state.lowSimilarity.toFixed(2);
    if (typed === null || !state.data) return;
    remember("low_similarity", state.lowSimilarity.toFixed(2));
    nameChip(find("kinds").querySelector(`[data-kind="${LOW}"]`), lowTexts(state.data).length);
    findStops();
  });
  find("similarity").addEventListener("keydown", (event) => { if (event.key === "Enter") ui.canvas.focus({ preventScroll: true }); });
}
