// The stops of N and P: failures and, if switched on, matched texts of low similarity. The latter is a setting of
// the player: those texts are no failures, and are in no count or score.

import { clockText, KINDS } from "../state/data.js";

export const LOW_SIMILARITY = "low similarity",
  LOW_SIMILARITY_SIGN = "≈";

// Parses a similarity such as 0.8 or 0,8 to hundredths; null for other text.
export function parseSimilarity(text) {
  const value = text.trim() ? Number(text.trim().replace(",", ".")) : NaN;
  return value >= 0 && value <= 1 ? Number(value.toFixed(2)) : null;
}

// Whether outputs exist that can fail: a reference alone has none.
export function canFail(data) {
  return data.has_reference && data.is_judged && !data.isReferenceAlone;
}

export function whyNoFailures(player) {
  if (player.data.is_copied && !player.data.has_reference)
    return (
      "There is no reference to fail against: the turns are a copy of the model's own. Correct them, " +
      "then tick “score by corrected”."
    );
  if (!player.data.has_reference) return "There is no reference to fail against.";
  return player.data.isReferenceAlone
    ? "There is no run here that can fail: this is the reference alone."
    : "The run still streams: its failures are known once it ends.";
}

// The sign and kind of a stop, with its place among the stops of the chosen kinds, such as "✕ missed (2 of 4)".
export function stopText(player, number) {
  const stop = player.data.stops[number],
    chosen = player.data.stops.filter(({ kind }) => player.kinds.has(kind));
  return (
    `${signOfKind(stop.kind)} ${stop.kind}` +
    `${chosen.includes(stop) ? ` (${chosen.indexOf(stop) + 1} of ${chosen.length})` : ""}`
  );
}

// The place of a failure among the stops of its moment that N visits, such as "2 of 3 at 0:09.5"; "" where it is alone.
export function momentText(player, failure) {
  const together = player.data.stops.filter(
    (stop) => stop === failure || (player.kinds.has(stop.kind) && Math.abs(stop.time - failure.time) < 1e-6),
  );
  return together.length > 1
    ? `${together.indexOf(failure) + 1} of ${together.length} at ${clockText(failure.time)}`
    : "";
}

// The status line of a run that opens at a failure: the failure, and the keys for the next steps.
export function openingText(player, number) {
  const { kind, words, time } = player.data.stops[number];
  const failure = `${signOfKind(kind)} ${kind}${words ? `: ${words}` : ""}`;
  return (
    `Failure ${number + 1} of ${player.data.stops.length}: ${failure}, at ${clockText(time)}. N: next ` +
    `${{ search: "moment of the search", settle: "one to settle" }[player.data.hit?.of] ?? "failure"} · Space: play · ?: all keys`
  );
}

export function signOfKind(kind) {
  return KINDS[kind] ?? LOW_SIMILARITY_SIGN;
}

// Matched texts with a low similarity (as rounded for display), as objects like failures.
export function lowSimilarityStops(player, data) {
  return data.turns
    .map((turn, number) => ({ turn, number }))
    .filter(
      ({ turn }) =>
        turn.role === "assistant" &&
        turn.verdict === "matched" &&
        turn.score !== null &&
        Number(turn.score.toFixed(2)) < player.lowSimilarity,
    )
    .map(({ turn, number }) => ({
      kind: LOW_SIMILARITY,
      turn: number,
      reference: turn.link,
      frame: turn.frame,
      time: turn.time,
      key: turn.key,
      cause: null,
      words: `${turn.score.toFixed(2)}, below ${player.lowSimilarity.toFixed(2)}: matched, no failure`,
    }));
}

// Failures and, if switched on, texts of low similarity, in the order of the events.
export function collectStops(player, data) {
  if (!player.kinds.has(LOW_SIMILARITY)) return data.failures;
  const order = new Map(data.events.map(({ key }, number) => [key, number]));
  return [...data.failures, ...lowSimilarityStops(player, data)].sort((a, b) => order.get(a.key) - order.get(b.key));
}
