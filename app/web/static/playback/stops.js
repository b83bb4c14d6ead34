// The stops of N and P: failures and, if switched on, matched texts of low similarity. The latter is a setting of
// the player: those texts are no failures, and are in no count or score.

import { clockText, KINDS } from "../state/data.js";

export const LOW_SIMILARITY = "low similarity",
  LOW_SIMILARITY_SIGN = "≈";

// Whether outputs exist that can fail: a reference alone has none.
export function canFail(data) {
  return data.has_reference && data.is_judged && !data.isReferenceAlone;
}

// The sign and kind of a stop, with its place among the stops of the chosen kinds, such as "✕ missed (2 of 4)".
export function stopText(player, number) {
  const stop = player.data.stops[number],
    chosen = player.data.stops.filter(({ kind }) => player.kinds.has(kind));
  const place = chosen.includes(stop) ? ` (${chosen.indexOf(stop) + 1} of ${chosen.length})` : "";
  return `${signOfKind(stop.kind)} ${stop.kind}${place}`;
}

// The place of a failure among the stops of its moment that N visits, such as "2 of 3 at 0:09.5"; "" where it is alone.
export function momentText(player, failure) {
  const together = player.data.stops.filter(
    (stop) => stop === failure || (player.kinds.has(stop.kind) && Math.abs(stop.time - failure.time) < 1e-6),
  );
  const place = `${together.indexOf(failure) + 1} of ${together.length} at ${clockText(failure.time)}`;
  return together.length > 1 ? place : "";
}

// The status line of a run that opens at a failure: the failure, and the keys for the next steps.
export function openingText(player, number) {
  const { kind, words, time } = player.data.stops[number];
  const failure = `${signOfKind(kind)} ${kind}${words ? `: ${words}` : ""}`,
    next = { search: "moment of the search", settle: "one to settle" }[player.data.hit?.of] ?? "failure";
  return (
    `Failure ${number + 1} of ${player.data.stops.length}: ${failure}, at ${clockText(time)}. ` +
    `N: next ${next} · Space: play · ?: all keys`
  );
}

export function signOfKind(kind) {
  return KINDS[kind] ?? LOW_SIMILARITY_SIGN;
}

// Matched texts with a low similarity (as rounded for display), as objects like failures.
export function lowSimilarityStops({ lowSimilarity }, data) {
  const toStop = ({ role, verdict, score, link: reference, frame, time, key }, turn) => {
    if (role !== "assistant" || verdict !== "matched" || score === null) return [];
    if (Number(score.toFixed(2)) >= lowSimilarity) return [];
    const words = `${score.toFixed(2)}, below ${lowSimilarity.toFixed(2)}: matched, no failure`;
    return { kind: LOW_SIMILARITY, turn, reference, frame, time, key, cause: null, words };
  };
  return data.turns.flatMap(toStop);
}

// Failures and, if switched on, texts of low similarity, in the order of the events.
export function collectStops(player, data) {
  if (!player.kinds.has(LOW_SIMILARITY)) return data.failures;
  const order = new Map(data.events.map(({ key }, number) => [key, number]));
  return [...data.failures, ...lowSimilarityStops(player, data)].sort((a, b) => order.get(a.key) - order.get(b.key));
}
