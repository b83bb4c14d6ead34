// The stops of N and P: failures, and matched texts of low similarity, which the scores count as matched.

import { clockText, countText, HIDDEN_ROOT, LOW_SIMILARITY, ROOT_SIGN, STOP_SIGNS, timeOf } from "./data.js";

// Whether outputs exist that can fail: a reference alone has none.
export function canFail(data) {
  return data.has_reference && data.is_judged && !data.isReferenceAlone;
}

// The line of a stop, with its place among the chosen ones: "Failure 2 of 4 · ✕ missed: silent ... · 0:09.5".
// Texts of low similarity are counted by themselves.
export function stopText(player, stop) {
  const { kind, words, time } = stop,
    isLow = kind === LOW_SIMILARITY,
    isAlike = (other) => isChosen(player, other) && (other.kind === LOW_SIMILARITY) === isLow,
    alike = player.data.stops.filter(isAlike);
  const place = alike.includes(stop) ? ` ${alike.indexOf(stop) + 1} of ${alike.length}` : "",
    noun = isLow ? "Text" : place && stopsAtRoots(player) ? "Root" : "Failure",
    name = `${STOP_SIGNS[kind] ?? ROOT_SIGN} ${kind}${words ? `: ${words}` : ""}`;
  return `${noun}${place} · ${name} · ${clockText(time)}`;
}

// The line of a run without failures, by its number of texts of low similarity, and of turns after its last frame.
export function calmText(numLow, numLater = 0) {
  const [until, later] = numLater
    ? [" up to its last frame", `, ${countText(numLater, "turn")} missed after it`]
    : ["", ""];
  return numLow
    ? `0 failures${until}, ${countText(numLow, "text")} of low similarity${later}`
    : `No failures${until}${later}`;
}

// The failures of a run, its texts of low similarity and its hidden roots, as objects like failures, in the order of
// the events.
export function findStops(data) {
  const order = new Map(data.events.map(({ key }, number) => [key, number]));
  const low = data.turns.flatMap(({ is_low, score, link: reference, frame, time, key }, turn) => {
    const words = `${score?.toFixed(2)}, other words`;
    return is_low ? [{ kind: LOW_SIMILARITY, turn, reference, frame, time, key, cause: null, words }] : [];
  });
  const stops = [...data.failures, ...low].sort((a, b) => order.get(a.key) - order.get(b.key));
  for (const hidden of findHiddenRoots(data)) {
    const after = stops.findIndex(({ time }) => time > hidden.time);
    stops.splice(after < 0 ? stops.length : after, 0, hidden);
  }
  const roots = new Set();
  for (const stop of stops) {
    if (stop.root === undefined || stop.is_consequence || roots.has(stop.root)) continue;
    stop.isRoot = true; // the first of the failures that began there
    roots.add(stop.root);
  }
  return stops;
}

// The stops of hidden roots: moments that fail only once the earlier roots are corrected, so that they have no event.
function findHiddenRoots(data) {
  const stop = { kind: HIDDEN_ROOT, turn: null, reference: null, key: null, cause: null, words: "" };
  return (data.roots ?? []).flatMap(({ frame, is_hidden }, root) =>
    is_hidden ? [{ ...stop, frame, time: timeOf(data, frame), root, is_consequence: false }] : [],
  );
}

// Whether N and P stop at a failure.
export function isChosen(player, { kind, isRoot }) {
  if (!stopsAtRoots(player)) return player.kinds.has(kind);
  return isRoot === true && (kind === HIDDEN_ROOT || player.kinds.has(kind));
}

export function stopsAtRoots(player) {
  return player.isRootsOnly && player.data.roots !== undefined;
}
