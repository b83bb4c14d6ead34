// Hover texts of decisions. Plotly reads part of HTML in them, so texts of models and files are escaped, cut and
// wrapped.

import { showTurns } from "../dom/dom.js";
import { clockText, countUpTo, probText, thresholdWords, timeOf } from "../state/data.js";
import { exceeds, signOf } from "../state/policy.js";
import { fullTitle, signalOf } from "../state/signals.js";

const MAX_LETTERS = 120,
  LINE_LETTERS = 60;
const MEANINGS = {
  hits: "decision in time",
  alarms: "unexpected decision",
  misses: "no decision",
  decisions: "decision",
};
export const ROLES = { speak: "assistant", update: "update" }; // of the turns that a signal decides on

// Returns a text that Plotly shows as it is, in lines of at most 60 letters.
export function plainText(text) {
  const line = showTurns(text.slice(0, MAX_LETTERS + 1)).replaceAll(/\s+/g, " ");
  const cut = line.length > MAX_LETTERS ? `${line.slice(0, MAX_LETTERS)}…` : line;
  const lines = cut.match(RegExp(`.{1,${LINE_LETTERS}}(?= |$)|.{1,${LINE_LETTERS}}`, "gu")) ?? [""];
  return lines
    .map((part) => part.trim().replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"))
    .join("<br>");
}

// The hover text of a decision, or of a reference without one, at a frame.
export function decisionText(run, name, kind, frame, threshold) {
  const signal = signalOf(run, name),
    { policy, decides, series } = signal,
    prob = run[series][frame];
  const sign = signOf(policy, exceeds(policy, decides, prob, threshold));
  const value = Number.isNaN(prob)
    ? "not known"
    : `${probText(prob, threshold)} ${sign} ${thresholdWords(policy, threshold)}`;
  return [
    `${clockText(timeOf(run, frame))}  ${MEANINGS[kind]}`,
    `${plainText(fullTitle(signal))} ${value}`,
    ...(kind === "misses" ? [] : saidLines(run, decides, frame)),
    ...referenceLines(run, decides, kind, frame),
  ].join("<br>");
}

const textsOf = new WeakMap(); // the hover texts of the counted decisions of a finished run, by kind and frame

// The hover text of a mark in a row. While the threshold rests it is made once: a drawing may have thousands.
export function hoverTextOf(counts, { run, name }, kind, frame, threshold) {
  const make = () => decisionText(run, name, run.has_reference ? kind : "decisions", frame, threshold);
  if (!run.is_finished) return make();
  if (!textsOf.has(counts)) textsOf.set(counts, new Map());
  const texts = textsOf.get(counts),
    key = `${kind} ${frame}`;
  if (!texts.has(key)) texts.set(key, make());
  return texts.get(key);
}

function saidLines(run, name, frame) {
  const turns = turnsWithin(run.turns, ROLES[name], frame, frame);
  return turns.length
    ? turns.map((turn) => `model: ${plainText(turn.text)}`)
    : [run.named.length ? "model: no text at this frame" : "model: no text, this is a preview"];
}

function referenceLines(run, name, kind, frame) {
  const role = ROLES[name],
    reach = { hits: run.tolerance_frames, misses: 0, alarms: -1, decisions: -1 }[kind];
  const matched = kind === "misses" ? [] : turnsWithin(run.turns, role, frame, frame),
    linked = matched.map(({ link }) => run.references[link]).filter(Boolean);
  const turns = linked.length ? linked : turnsWithin(sortedReferences(run, role), role, frame - reach, frame + reach);
  return turns.map((turn) => `reference ${clockText(turn.time)}: ${plainText(turn.text)}`);
}

// The turns of a role from frame `first` to `last`, of a list that is sorted by frame.
function turnsWithin(turns, role, first, last) {
  const [from, to] = [first - 1, last].map((limit) => countUpTo(turns, limit, (turn) => turn.frame));
  return turns.slice(from, to).filter((turn) => turn.role === role);
}

const referencesOf = new WeakMap(); // the reference turns of a run by role, sorted by frame

function sortedReferences(run, role) {
  if (!referencesOf.has(run)) referencesOf.set(run, {});
  return (referencesOf.get(run)[role] ??= run.references
    .filter((turn) => turn.role === role)
    .sort((a, b) => a.frame - b.frame));
}
