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
  const { wantsCorrected: corrected, isBlind: is_blind } = player.review;
  player.trigger("against", { corrected, reviewer: player.reviewer, is_blind });
}

// Scores a run that has ended by the corrected reference if the reviewer wants it.
export function scoreIfWanted(player) {
  const { is_finished, isReferenceAlone } = player.data;
  if (player.review.wantsCorrected && is_finished && !isReferenceAlone) requestScoring(player);
}

// The lane of the corrected reference: each turn at its current time, deleted ones at their last time.
export function layerTurns(player) {
  if (!player.layer) return [];
  const isChanged = (turn) => turn.is_added || turn.reviewers.length > 0;
  const { turns, deleted, conflicts } = player.layer,
    torn = new Set(conflicts.map((found) => found.key)),
    lookOf = (turn) => ({ isTorn: torn.has(turn.key), look: isChanged(turn) ? "changed" : "same" });
  const all = [
    ...turns.map((turn) => ({ ...turn, ...lookOf(turn) })),
    ...deleted.map((turn) => ({ ...turn, look: "deleted" })),
  ];
  return all.sort((a, b) => a.time - b.time);
}
