// The corrected reference: the layer of corrections over the source.

export function correctedTurn(player, event) {
  return player.review.turns.get(event.key) ?? null;
}
// A turn of the corrected reference, or of the last one before it was deleted; null for an event of no reference.
export function lastTurn(player, key) {
  return player.review.turns.get(key) ?? player.layer?.deleted.find((turn) => turn.key === key) ?? null;
}
export function eventTime(player, event) {
  return player.review.turns.get(event.key)?.time ?? event.time;
}

export function requestScoring(player) {
  player.trigger("against", {
    corrected: player.review.wantsCorrected,
    reviewer: player.reviewer,
    is_blind: player.review.isBlind,
  });
}

// The lane of the corrected reference: each turn at its current time, deleted ones at their last time.
export function layerTurns(player) {
  if (!player.layer) return [];
  const isChanged = (turn) => turn.is_added || turn.reviewers.length > 0;
  const torn = new Set(player.layer.conflicts.map((found) => found.key));
  return [
    ...player.layer.turns.map((turn) => ({
      ...turn,
      isTorn: torn.has(turn.key),
      look: isChanged(turn) ? "changed" : "same",
    })),
    ...player.layer.deleted.map((turn) => ({ ...turn, look: "deleted" })),
  ].sort((a, b) => a.time - b.time);
}
