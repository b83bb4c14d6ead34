// Stepping through the stops, or through the moments of a search or to settle, and the chips that choose stops.

import { requestPaint } from "../timeline/chart.js";
import { clockText, KINDS } from "../state/data.js";
import { createButton, createNode, keepSetting, setStatus } from "../dom/dom.js";
import { currentEvent } from "../review/opinions.js";
import { redrawPlayhead } from "./playhead.js";
import { goToFailure, stopIndexOf } from "./selection.js";
import { readSetting } from "../state/settings.js";
import {
  canFail,
  collectStops,
  LOW_SIMILARITY,
  lowSimilarityStops,
  momentText,
  signOfKind,
  stopText,
} from "./stops.js";

// Parses a similarity such as 0.8 or 0,8 to hundredths; null for other text.
function parseSimilarity(text) {
  const value = text.trim() ? Number(text.trim().replace(",", ".")) : NaN;
  return value >= 0 && value <= 1 ? Number(value.toFixed(2)) : null;
}

function whyNoFailures(player) {
  const { has_reference, is_copied, isReferenceAlone } = player.data,
    copied = ": the turns are a copy of the model's own. Correct them, then tick “score by corrected”";
  if (!has_reference) return `There is no reference to fail against${is_copied ? copied : ""}.`;
  return isReferenceAlone
    ? "There is no run here that can fail: this is the reference alone."
    : "The run still streams: its failures are known once it ends.";
}

function chipText(player, kind) {
  return kind === LOW_SIMILARITY ? `${LOW_SIMILARITY} (below ${player.lowSimilarity.toFixed(2)})` : kind;
}

// Shows the place of the moment in its list above the failure keys; hides it for a run that no list opened.
export function drawHit(player) {
  const { hit } = player.data,
    line = player.find("hit");
  line.hidden = !hit;
  if (!hit) return;
  const isSearch = hit.of === "search",
    place = `${isSearch ? "Moment " : ""}${hit.number} of ${hit.total} ${isSearch ? "of the search " : "to settle"}`,
    title = "Let N and P go to the failures of this video again";
  const leave = () => {
    delete player.data.hit;
    drawHit(player);
  };
  line.replaceChildren(
    createNode("span", "", place),
    createNode("b", "", isSearch && `“${hit.query}”`),
    createNode("span", "", " · N next · P previous "),
    createButton("", isSearch ? "leave the search" : "leave the list", leave, { title }),
  );
}

// The button of the page for the next (1) or previous (-1) entry of a list.
const stepButton = (of, by) => document.querySelector(`#${of}_${by > 0 ? "next" : "previous"}`);

// Opens the next (1) or previous (-1) moment of the list, in any video; else goes to a failure.
export function stepStop(player, by) {
  const { hit } = player.data,
    button = hit && stepButton(hit.of, by);
  if (button) button.click();
  else stepFailure(player, by);
}

// Opens the next (1) or previous (-1) video of the table.
export function stepVideo(player, by) {
  const button = stepButton("videos", by);
  if (button) button.click();
  else setStatus(player, "The table of videos is not loaded: open Videos in Batch once.");
}

// Opens the next moment to settle after a final verdict on the shown one.
export function goOnSettling(player) {
  const { hit } = player.data;
  if (hit?.of !== "settle") return;
  if (hit.number < hit.total) stepStop(player, 1);
  else setStatus(player, `Settled. This was the last of ${hit.total} to settle.`);
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

function stepFailure(player, by) {
  const wanted = player.data.stops
    .map((failure, number) => ({ failure, number }))
    .filter(({ failure }) => player.kinds.has(failure.kind));
  const isBeyond = isBeyondPlace(player, by);
  const next = by > 0 ? wanted.find(isBeyond) : wanted.findLast(isBeyond);
  if (!canFail(player.data)) return setStatus(player, whyNoFailures(player), true);
  if (!next) {
    const place = player.selectedTime === null ? clockText(player.video.time) : "this one",
      none = wanted.length ? `No failure ${by > 0 ? "after" : "before"} ${place}.` : "No failure of the chosen kinds.";
    return setStatus(player, none, true);
  }
  goToFailure(player, next.number);
  const moment = momentText(player, next.failure),
    where = moment ? `; ${moment}` : ` at ${clockText(next.failure.time)}`;
  setStatus(player, `${stopText(player, next.number)}${where}`, true);
}

// Shows the button for the kind of the failure that is shown; null for none.
export function drawOnlyKind(player, failure) {
  const button = player.find("only"),
    isOnly = player.kinds.size === 1 && player.kinds.has(failure?.kind);
  button.hidden = !failure;
  player.find("find").hidden = !player.settings.can_run || !player.data?.kept_run || !KINDS[failure?.kind];
  button.textContent = isOnly ? "all kinds" : "only this kind";
  button.title = `Let N and P stop at ${isOnly ? "the other kinds again" : "this kind of failure only"} (8)`;
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
  const only = `N and P stop only at “${kind}”. 8 chooses the other kinds again.`;
  setStatus(player, isBack ? "N and P stop at all chosen kinds." : only);
}

// Opens the search of the tab Batch with all failures of the kind that is shown, in the shown run.
export function findKind(player) {
  const { kind } = player.data.stops[player.stopIndex];
  player.trigger("find_kind", { kind, run: player.data.kept_run });
}

export function drawKinds(player) {
  const counts = { [LOW_SIMILARITY]: lowSimilarityStops(player, player.data).length };
  for (const failure of player.data.failures) counts[failure.kind] = (counts[failure.kind] ?? 0) + 1;
  const kinds = canFail(player.data) ? [...Object.keys(KINDS), LOW_SIMILARITY] : [];
  player.find("kinds").replaceChildren(...kinds.map((kind) => drawChip(player, kind, counts[kind] ?? 0)));
  drawSimilarityInput(player);
}

function drawChip(player, kind, count) {
  const toggle = () => {
    if (!player.kinds.delete(kind)) player.kinds.add(kind);
    player.kindsBefore = null;
    redrawPlayhead(player);
    chip.ariaPressed = player.kinds.has(kind);
    if (kind === LOW_SIMILARITY) {
      updateStops(player);
      drawSimilarityInput(player);
    }
    requestPaint(player);
  };
  const words = chipText(player, kind);
  const chip = createButton("ss-kind", [`${signOfKind(kind)} ${count}`, createNode("small", "", words)], toggle, {
    disabled: !count && kind !== LOW_SIMILARITY, // another similarity may have some
    title: `${words}: stop there or not`,
    ariaLabel: `${words}: ${count}`,
    ariaPressed: player.kinds.has(kind),
    dataset: { kind },
  });
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
  player.listen("similarity", "change", ({ target }) => {
    const typed = parseSimilarity(target.value),
      kept = (typed ?? player.lowSimilarity).toFixed(2),
      refusal = `“${target.value.slice(0, 20)}” is not a similarity: a number from 0 to 1 is. It stays ${kept}.`;
    setStatus(player, typed === null ? refusal : "");
    target.value = kept;
    if (typed === null) return;
    player.lowSimilarity = typed;
    if (!player.data) return;
    keepSetting(player, "low_similarity", kept);
    drawKinds(player);
    updateStops(player);
  });
  player.listen("similarity", "keydown", ({ key }) => key === "Enter" && player.focus());
}
