// Stepping through the stops, or through the moments of a search or to settle, and the chips that choose stops.

import { requestPaint } from "../timeline/chart.js";
import { clockText, KINDS, STOP_SIGNS } from "../state/data.js";
import { createButton, createNode, setStatus } from "../dom/dom.js";
import { currentEvent } from "../events/opinions.js";
import { drawReason, drawRootsChip } from "./reason.js";
import { redrawPlayhead } from "../clock/playhead.js";
import { goToFailure } from "./selection.js";
import { canFail, isChosen, stopNoun, stopText, whyUnscored } from "../state/stops.js";

function whyNoFailures(player) {
  if (!player.data.has_reference) return whyUnscored(player.data);
  return player.data.isReferenceAlone
    ? "There is no run here that can fail: this is the reference alone."
    : "The run still streams: its failures are known once it ends.";
}

// What N and P step through while a list is open, by its name.
export const LIST_NOUNS = { search: "moment", settle: "to settle" }; // longer ones wrap the bar

// Shows the place of the moment in its list above the line of failures, and names the buttons of N and P for it; hides
// the place of a run that no list opened.
export function drawListPlace(player) {
  const { place } = player.data.landing,
    noun = LIST_NOUNS[place?.of] ?? stopNoun(player),
    line = player.find("hit");
  for (const [name, label, title] of [
    ["previousFailure", `◂ ${noun}`, `Previous ${noun} (P)`],
    ["nextFailure", `${noun} ▸`, `Next ${noun} (N)`],
  ]) {
    const button = player.find("bar").querySelector(`[data-do=${name}]`);
    Object.assign(button, { textContent: label, title, ariaLabel: title.slice(0, -4) });
  }
  line.hidden = !place;
  if (!place) return;
  const isSearch = place.of === "search",
    [before, after] = isSearch ? ["Moment ", "of the search "] : ["", "to settle"],
    words = `${before}${place.number} of ${place.total} ${after}`,
    title = "Let N and P go to the failures of this video again";
  const leave = () => {
    delete player.data.landing.place;
    drawListPlace(player);
  };
  line.replaceChildren(
    createNode("span", "", words),
    createNode("b", "", isSearch && `“${place.query}”`),
    " ",
    createButton("", isSearch ? "leave the search" : "leave the list", leave, { title }),
  );
}

// Opens the next (1) or previous (-1) moment of the list, in any video; else goes to a failure.
export function stepStop(player, by) {
  const { place } = player.data.landing;
  if (place) player.trigger(`step_${place.of}`, { by });
  else stepFailure(player, by);
}

// Opens the next (1) or previous (-1) video of the table.
export function stepVideo(player, by) {
  if (player.settings.hint) return setStatus(player, "A live session has no further videos.");
  player.trigger("step_videos", { by });
}

// Opens the next moment to settle after a final verdict on the shown one.
export function goOnSettling(player) {
  const { place } = player.data.landing;
  if (place?.of !== "settle") return;
  if (place.number < place.total) stepStop(player, 1);
  else setStatus(player, `Settled. This was the last of ${place.total} to settle.`);
}

// Whether a stop lies beyond the current place, after it (`by` 1) or before it (-1). The place is the selected stop,
// else the selected event in the order of events, else the playhead: N then includes the stops at the playhead's own
// time. It also includes a stop that a verdict selected, so that N after each verdict skips no failure. Where a turn
// was moved, its old and its new time are both the place; an added turn has no place in that order.
function isBeyondPlace(player, by) {
  const least = by > 0 && player.isAfterVerdict ? 0 : 1;
  if (player.stopIndex !== null) return ({ number }) => by * (number - player.stopIndex) >= least;
  const time = player.video.time,
    event = player.selectedTime === null ? null : currentEvent(player),
    isAdded = event && !player.data.events.some(({ key }) => key === event.key),
    current = event && !isAdded ? orderOfEvent(player, event.key) : -1,
    isMoved = event && Math.abs(event.time - time) >= 0.5 / player.data.fps;
  return ({ failure }) => {
    const isBeyond = by > 0 ? failure.time > time - 0.01 : failure.time < time - 0.01,
      order = current < 0 ? -1 : orderOfEvent(player, failure.key);
    return order < 0 ? isBeyond : by * (order - current) > 0 || (isMoved && isBeyond);
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
    .filter(({ failure }) => isChosen(player, failure));
  const isBeyond = isBeyondPlace(player, by);
  const next = by > 0 ? wanted.find(isBeyond) : wanted.findLast(isBeyond);
  if (!canFail(player.data)) return setStatus(player, whyNoFailures(player), true);
  if (!next) {
    const place = player.selectedTime === null ? clockText(player.video.time) : "this one",
      none = wanted.length
        ? `No ${stopNoun(player)} ${by > 0 ? "after" : "before"} ${place}.`
        : player.data.stops.length
          ? "No failure of the chosen kinds."
          : "No mistake in this video.";
    const here = player.data.stops[player.stopIndex ?? -1]; // a phone has its sentence only here
    return setStatus(player, [none, here && stopText(player, here)].filter(Boolean).join(" "), true);
  }
  goToFailure(player, next.number);
}

// Shows the button for the kind of the failure that is shown, and its reason; null for none.
export function drawOnlyKind(player, failure) {
  const button = player.find("only"),
    isOnly = player.kinds.size === 1 && player.kinds.has(failure?.kind);
  button.hidden = !STOP_SIGNS[failure?.kind];
  player.find("find").hidden = !player.settings.can_run || !player.data?.kept_run || !KINDS[failure?.kind];
  button.textContent = isOnly ? "all kinds" : "only this kind";
  button.title = `Let N and P stop at ${isOnly ? "the other kinds again" : "this kind of failure only"} (8)`;
  if (player.data) drawReason(player, failure);
}

// Stops only at the kind of the failure that is shown, or again at the kinds chosen before.
export function toggleOnlyKind(player) {
  if (!canFail(player.data)) return setStatus(player, whyNoFailures(player), true);
  const kind = player.stopIndex === null ? null : player.data.stops[player.stopIndex].kind;
  const isBack = player.kinds.size === 1 && (kind === null || player.kinds.has(kind));
  if (kind === null && !isBack) return setStatus(player, "No mistake is selected: N goes to the next one.");
  const chosen = isBack ? (player.kindsBefore ?? Object.keys(STOP_SIGNS)) : [kind];
  player.kindsBefore = isBack ? null : (player.kindsBefore ?? [...player.kinds]);
  player.kinds.clear();
  for (const name of chosen) player.kinds.add(name);
  redrawPlayhead(player);
  drawKinds(player);
  requestPaint(player);
  const only = `N and P stop only at “${kind}”. 8 chooses the other kinds again.`;
  setStatus(player, isBack ? "N and P stop at all chosen kinds." : only);
}

// Opens the search of the tab Batch with all failures of the kind that is shown, in the shown run.
export function findKind(player) {
  const { kind } = player.data.stops[player.stopIndex];
  player.trigger("find_kind", { kind, run: player.data.kept_run });
}

export function drawKinds(player) {
  const kinds = canFail(player.data) ? Object.keys(STOP_SIGNS) : [],
    count = (kind) => player.data.stops.filter((stop) => stop.kind === kind).length;
  const redraw = () => {
    drawKinds(player);
    drawListPlace(player);
  };
  const chips = [...kinds.map((kind) => drawChip(player, kind, count(kind))), drawRootsChip(player, redraw)];
  player.find("kinds").replaceChildren(...chips.filter(Boolean));
}

function drawChip(player, kind, count) {
  const toggle = () => {
    if (!player.kinds.delete(kind)) player.kinds.add(kind);
    player.kindsBefore = null;
    redrawPlayhead(player);
    chip.ariaPressed = player.kinds.has(kind);
    requestPaint(player);
  };
  const chip = createButton("ss-kind", [`${STOP_SIGNS[kind]} ${count}`, createNode("small", "", kind)], toggle, {
    disabled: !count,
    title: `${kind}: stop there or not`,
    ariaLabel: `${kind}: ${count}`,
    ariaPressed: player.kinds.has(kind),
    dataset: { kind },
  });
  return chip;
}
