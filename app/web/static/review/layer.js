// The corrected reference: the layer of corrections over the source.

import { host, layer, review, reviewer } from "../state/state.js";

export function correctedTurn(event) {
  return review.turns.get(event.key) ?? null;
}
// A turn of the corrected reference, or of the last one before it was deleted; null for an event of no reference.
export function lastTurn(key) {
  return review.turns.get(key) ?? layer()?.deleted.find((turn) => turn.key === key) ?? null;
}
export function eventTime(event) {
  return review.turns.get(event.key)?.time ?? event.time;
}

export function requestScoring() {
  host.trigger("against", { corrected: review.wantsCorrected, reviewer: reviewer(), is_blind: review.isBlind });
}

// The lane of the corrected reference: each turn at its current time, deleted ones at their last time.
export function layerTurns() {
  if (!layer()) return [];
  const isChanged = (turn) => turn.is_added || turn.reviewers.length > 0;
  const torn = new Set(layer().conflicts.map((found) => found.key));
  return [
    ...layer().turns.map((turn) => ({
      ...turn,
      isTorn: torn.has(turn.key),
      look: isChanged(turn) ? "changed" : "same",
    })),
    ...layer().deleted.map((turn) => ({ ...turn, look: "deleted" })),
  ].sort((a, b) => a.time - b.time);
}
