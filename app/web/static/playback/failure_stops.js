// Stepping through the stops, and the chips that choose them.

import { requestPaint } from "../timeline/chart.js";
import { clockText, KINDS } from "../state/data.js";
import { createNode } from "../dom/dom.js";
import { currentEvent } from "../review/opinions.js";
import { redrawPlayhead } from "./playhead.js";
import { goToFailure, stopIndexOf } from "./selection.js";
import { readSetting } from "../state/settings.js";
import { keepSetting, setStatus } from "../dom/status.js";
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

function chipText(player, kind) {
  return kind === LOW_SIMILARITY ? `${LOW_SIMILARITY} (below ${player.lowSimilarity.toFixed(2)})` : kind;
}

// Updates the stops after a change of the setting; keeps the current stop if it is still one.
function updateStops(player) {
  const shownStop = player.stopIndex === null ? null : player.data.stops[player.stopIndex];
  player.data.stops = collectStops(player, player.data);
  const isSame = (stop) =>
    stop === shownStop ||
    (stop.kind === LOW_SIMILARITY && shownStop?.kind === LOW_SIMILARITY && stop.turn === shownStop.turn);
  const number = player.data.stops.findIndex(isSame);
  player.stopIndex =
    number >= 0 ? number : player.selectedTime === null ? null : stopIndexOf(player, currentEvent(player));
  redrawPlayhead(player);
  player.drawReview();
  requestPaint(player);
}

// Whether a stop lies beyond the current place, after it (`by` 1) or before it (-1). The place is the selected stop,
// else the selected event in the order of events (not where its turn was moved away from it), else the playhead: N then
// includes the stops at the playhead's own time. It also includes a stop that a verdict selected, so that N after each
// verdict skips no failure.
function isBeyondPlace(player, by) {
  const least = by > 0 && player.isAfterVerdict ? 0 : 1;
  if (player.stopIndex !== null) return ({ number }) => by * (number - player.stopIndex) >= least;
  const time = player.video.time,
    event = currentEvent(player),
    isHere = event && Math.abs(event.time - time) < 0.5 / player.data.fps;
  const current = player.selectedTime === null || !isHere ? -1 : orderOfEvent(player, player.review.current);
  return ({ failure }) => {
    const order = current < 0 ? -1 : orderOfEvent(player, failure.key);
    if (order >= 0) return by * (order - current) > 0;
    return by > 0 ? failure.time > time - 0.01 : failure.time < time - 0.01;
  };
}

// The index of an event among the events of the review, a matched pair counted as one; -1 if it is none of them.
function orderOfEvent(player, key) {
  const unit = player.review.units.get(key)?.key ?? key;
  return player.review.events.findIndex((event) => event.key === unit);
}

export function stepFailure(player, by) {
  const wanted = player.data.stops
    .map((failure, number) => ({ failure, number }))
    .filter(({ failure }) => player.kinds.has(failure.kind));
  const isBeyond = isBeyondPlace(player, by);
  const next = by > 0 ? wanted.find(isBeyond) : wanted.findLast(isBeyond);
  if (!canFail(player.data)) return setStatus(player, whyNoFailures(player), true);
  if (!next)
    return setStatus(
      player,
      wanted.length
        ? `No failure ${by > 0 ? "after" : "before"} ` +
            `${player.selectedTime === null ? clockText(player.video.time) : "this one"}.`
        : "No failure of the chosen kinds.",
      true,
    );
  goToFailure(player, next.number);
  setStatus(
    player,
    `${stopText(player, next.number)}` +
      (momentText(player, next.failure)
        ? `; ${momentText(player, next.failure)}`
        : ` at ${clockText(next.failure.time)}`),
    true,
  );
}

// Shows the button for the kind of the failure that is shown; null for none.
export function drawOnlyKind(player, failure) {
  const button = player.find("only"),
    isOnly = player.kinds.size === 1 && player.kinds.has(failure?.kind);
  button.hidden = !failure;
  player.find("find").hidden = !player.settings.can_run || !player.data?.kept_run || !KINDS[failure?.kind];
  button.textContent = isOnly ? "all kinds" : "only this kind";
  button.title = isOnly
    ? "Let N and P stop at the other kinds again (8)"
    : "Let N and P stop at this kind of failure only (8)";
}

// Stops only at the kind of the failure that is shown, or again at the kinds chosen before.
export function toggleOnlyKind(player) {
  if (!canFail(player.data)) return setStatus(player, whyNoFailures(player), true);
  const kind = player.stopIndex === null ? null : player.data.stops[player.stopIndex].kind;
  const isBack = player.kinds.size === 1 && (kind === null || player.kinds.has(kind));
  if (kind === null && !isBack) return setStatus(player, "No failure is selected: N goes to the next one.");
  const chosen = isBack ? (player.kindsBefore ?? Object.keys(KINDS)) : [kind];
  player.kindsBefore = isBack ? null : (player.kindsBefore ?? [...player.kinds]);
  player.kinds.clear();
  for (const name of chosen) player.kinds.add(name);
  updateStops(player);
  drawKinds(player);
  setStatus(
    player,
    isBack ? "N and P stop at all chosen kinds." : `N and P stop only at “${kind}”. 8 chooses the other kinds again.`,
  );
}

// Opens the search of the tab Batch with all failures of the kind that is shown, in the shown run.
export function findKind(player) {
  const { kind } = player.data.stops[player.stopIndex];
  player.trigger("find_kind", { kind, run: player.data.kept_run });
}

export function drawKinds(player) {
  const counts = { [LOW_SIMILARITY]: lowSimilarityStops(player, player.data).length };
  for (const failure of player.data.failures) counts[failure.kind] = (counts[failure.kind] ?? 0) + 1;
  player
    .find("kinds")
    .replaceChildren(
      ...(canFail(player.data)
        ? [...Object.keys(KINDS), LOW_SIMILARITY].map((kind) => drawChip(player, kind, counts[kind] ?? 0))
        : []),
    );
  drawSimilarityInput(player);
}

function drawChip(player, kind, count) {
  const chip = createNode("button", "ss-kind");
  chip.type = "button";
  chip.dataset.kind = kind;
  chip.setAttribute("aria-pressed", player.kinds.has(kind));
  chip.disabled = !count && kind !== LOW_SIMILARITY; // another similarity may have some
  chip.addEventListener("click", () => {
    if (!player.kinds.delete(kind)) player.kinds.add(kind);
    player.kindsBefore = null;
    redrawPlayhead(player);
    chip.setAttribute("aria-pressed", player.kinds.has(kind));
    if (kind === LOW_SIMILARITY) {
      updateStops(player);
      drawSimilarityInput(player);
    }
    requestPaint(player);
  });
  return labelChip(player, chip, count);
}

function labelChip(player, chip, count) {
  const words = chipText(player, chip.dataset.kind);
  chip.title = `${words}: stop there or not`;
  chip.setAttribute("aria-label", `${words}: ${count}`);
  chip.replaceChildren(`${signOfKind(chip.dataset.kind)} ${count}`, createNode("small", "", words));
  return chip;
}

// Shows the input of the similarity limit beside the ≈ chip while the chip is on.
export function drawSimilarityInput(player) {
  player.find("below").hidden = !player.data || !canFail(player.data) || !player.kinds.has(LOW_SIMILARITY);
  if (document.activeElement !== player.find("similarity"))
    player.find("similarity").value = player.lowSimilarity.toFixed(2);
}

export function mountFailureStops(player) {
  player.lowSimilarity = parseSimilarity(readSetting("low_similarity")) ?? player.lowSimilarity;
  player.find("similarity").addEventListener("change", (event) => {
    const typed = parseSimilarity(event.target.value);
    setStatus(
      player,
      typed === null
        ? `“${event.target.value.slice(0, 20)}” is not a similarity: a number from 0 to 1 is. It stays ` +
            `${player.lowSimilarity.toFixed(2)}.`
        : "",
    );
    player.lowSimilarity = typed ?? player.lowSimilarity;
    event.target.value = player.lowSimilarity.toFixed(2);
    if (typed === null || !player.data) return;
    keepSetting(player, "low_similarity", player.lowSimilarity.toFixed(2));
    labelChip(
      player,
      player.find("kinds").querySelector(`[data-kind="${LOW_SIMILARITY}"]`),
      lowSimilarityStops(player, player.data).length,
    );
    updateStops(player);
  });
  player.find("similarity").addEventListener("keydown", (event) => {
    if (event.key === "Enter") player.canvas.focus({ preventScroll: true });
  });
}
