// The stops of N and P: failures, and matched texts of low similarity, which the scores count as matched.

import { clockText, countText, HIDDEN_ROOT, LOW_SIMILARITY, STOP_SIGNS, timeOf } from "./data.js";

// Whether outputs exist that can fail: a reference alone has none.
export function canFail(data) {
  return data.has_reference && data.is_judged && !data.isReferenceAlone;
}

// Why a run without a reference has neither scores nor failures.
export function whyUnscored({ has_other_steps, is_copied }) {
  if (has_other_steps) return "No scores: the steps differ from those of the reference.";
  const copied = ": the turns are a copy of the model's own. Correct them, then tick “score by corrected”";
  return `There is no reference to score against${is_copied ? copied : ""}.`;
}

// The line of a stop, with its place among the chosen ones: "Mistake 2 of 3 · 0:09.5 · The assistant ...", or for a
// reviewer "Failure 2 of 4 · ✕ missed: silent ... · 0:09.5". Texts of low similarity are counted by themselves.
export function stopText(player, stop) {
  const { kind, words, time } = stop,
    isLow = kind === LOW_SIMILARITY,
    isAlike = (other) => isChosen(player, other) && (other.kind === LOW_SIMILARITY) === isLow,
    isOfMistake = ({ mistake }) => mistake !== undefined && mistake === stop.mistake,
    alike = player.data.stops.filter(isAlike);
  const at =
    alike.includes(stop) || stopNoun(player) !== "mistake" ? alike.indexOf(stop) : alike.findIndex(isOfMistake);
  const place = at < 0 ? "" : ` ${at + 1} of ${alike.length}`,
    noun = isLow ? "text" : place || !stopsAtRoots(player) ? stopNoun(player) : "failure",
    title = `${noun[0].toUpperCase()}${noun.slice(1)}${place}`;
  if (noun === "failure")
    return `${title} · ${STOP_SIGNS[kind]} ${kind}${words ? `: ${words}` : ""} · ${clockText(time)}`;
  return `${title} · ${clockText(time)} · ${sentenceOf(player, stop)}`;
}

// What happened at a stop, in one or two sentences; the vocabulary of the split may define its cause in other words.
export function sentenceOf(player, { mistake, root, words }) {
  const { data } = player;
  if (mistake === undefined) return words || data.roots[root].words;
  const { cause, scene, act, states } = data.mistakes[mistake],
    [, own] = player.review.state?.vocabulary?.causes.find(([name]) => name === cause) ?? [];
  return [own ? `Cause ${cause}: ${own}.` : scene, act || states].filter(Boolean).join(" ");
}

// What N and P step through without a list: each failure while reviewing, else mistakes, or roots alone.
export function stopNoun(player) {
  return stopsAtRoots(player) ? "chain" : player.isReviewing ? "failure" : "mistake";
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
    const words = `In time, but in other words: similarity ${score?.toFixed(2)}.`;
    return is_low ? [{ kind: LOW_SIMILARITY, turn, reference, frame, time, key, cause: null, words }] : [];
  });
  const stops = [...data.failures, ...low].sort((a, b) => order.get(a.key) - order.get(b.key));
  for (const hidden of findHiddenRoots(data)) {
    const after = stops.findIndex(({ time }) => time > hidden.time);
    stops.splice(after < 0 ? stops.length : after, 0, hidden);
  }
  for (const [mistake, { failures }] of data.mistakes.entries())
    for (const at of failures) data.failures[at].mistake = mistake;
  for (const found of data.mistakes) found.stops = [];
  for (const stop of stops) data.mistakes[stop.mistake]?.stops.push(stop);
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
export function isChosen(player, stop) {
  const { kind, isRoot } = stop;
  const isOfKind = ({ kind: other }) => player.kinds.has(other);
  if (!stopsAtRoots(player) && (player.isReviewing || stop.mistake === undefined)) return isOfKind(stop);
  if (!stopsAtRoots(player)) return player.data.mistakes[stop.mistake].stops.find(isOfKind) === stop;
  return isRoot === true && (kind === HIDDEN_ROOT || player.kinds.has(kind));
}

export function stopsAtRoots(player) {
  return player.isRootsOnly && !player.review.isBlind && player.data.roots !== undefined;
}
