// The signals of a run: its two probabilities, and the named ones that any model may have.

import { countTriggers, hasSignal, kindOf } from "./policy.js";

export const DECISIONS = ["speak", "update"];
const LINES = ["latency", "user", "done", "reference"]; // colours of named signals, in turn

export function decodeFloats(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

export function concatenate(one, other) {
  const joined = new Float64Array(one.length + other.length);
  joined.set(one);
  joined.set(other, one.length);
  return joined;
}

// Gives each named signal its values, under a name of its own, its colour and the range of its row. A signal that
// decides by a threshold that the run does not have can be given one; its handle lies at the top of its range, which
// decides nothing.
export function prepareSignals(data) {
  data.assistant_states ??= [];
  data.named = (data.named ?? []).map(({ values, ...signal }, number) => {
    const name = `signal-${number}`;
    data[name] = decodeFloats(values);
    const isKnown = hasValues(data, name),
      hasThreshold = signal.threshold !== null && isKnown;
    const canMove = hasThreshold || (isKnown && signal.decides !== null && !kindOf(signal.policy).range);
    if (hasThreshold) data.thresholds[name] = signal.threshold;
    const made = { ...signal, name, hasThreshold, canMove, colour: LINES[number % LINES.length], series: name };
    return hasThreshold ? withLevels(data, made, signal.threshold) : made;
  });
}

// The numbers that are compared with the threshold, if they are not the values, are a series of their own, and set the
// range.
function withLevels(data, signal, threshold) {
  const rangeOf = kindOf(signal.policy).range;
  if (!rangeOf) return signal;
  const made = { ...signal, ...rangeOf(signal.low, signal.high), series: `${signal.name} level` };
  made.isOpen = made.high === Infinity;
  computeLevels(data, made, threshold);
  fitRange(data, made, threshold);
  return made;
}

function computeLevels(data, signal, threshold) {
  const counter = countTriggers(signal.policy, signal.decides ?? "speak", threshold, data.fps);
  data[signal.series] = data[signal.name].map((value) => {
    counter.add(value);
    return counter.level;
  });
  signal.compared = threshold;
}

function fitRange(data, signal, threshold) {
  if (signal.isOpen) signal.high = 1.25 * data[signal.series].reduce((a, b) => (b > a ? b : a), threshold) || 1;
}

// Appends values to a named signal of a run that streams.
export function appendSignal(data, signal, values) {
  data[signal.name] = concatenate(data[signal.name], values);
  if (signal.series === signal.name) return;
  computeLevels(data, signal, signal.compared);
  fitRange(data, signal, signal.threshold ?? 0);
}

// Computes the levels of a signal again, in place, for another threshold: the resets of a sum depend on it. A signal
// that has no threshold yet gets one.
export function setLevels(data, name, threshold) {
  const signal = signalOf(data, name);
  if (!signal.hasThreshold) Object.assign(signal, withLevels(data, signal, threshold), { hasThreshold: true });
  else if (signal.series !== name) computeLevels(data, signal, threshold);
}

// The title of a signal in a text that has room, with a warning if the model was never trained for it.
export const fullTitle = ({ title, isUntrained }) => (isUntrained ? `${title} (untrained)` : title);

export function signalOf(data, name) {
  if (!DECISIONS.includes(name)) return data.named.find((signal) => signal.name === name);
  const isTraced = hasValues(data, name),
    head = { name, title: name, decides: name, low: 0, high: 1, colour: name, series: name };
  const found = { policy: data.policy, isTraced, hasThreshold: isTraced, canMove: isTraced };
  return { ...head, ...found, isUntrained: data.is_untrained };
}

// Whether a probability of a frame is known, or none is there yet.
export function hasValues(data, name) {
  return !data.times.length || data[name].some((value) => !Number.isNaN(value));
}

// The rows from the top. A probability that no frame has gives way to the named signals that decide the same, and that
// of updates to nothing if there is none; a policy without updates has no row of them.
export function visibleSignals(data) {
  const isShown = (name) =>
    (hasValues(data, name) && hasSignal(data.policy, name) && (data.times.length > 0 || !data.named.length)) ||
    ((data.decided[name].length > 0 || (name === "speak" && !data.named.length)) &&
      !data.named.some((signal) => signal.decides === name && hasValues(data, signal.name)));
  return [...DECISIONS.filter(isShown).map((name) => signalOf(data, name)), ...data.named];
}

// The names of the signals whose decisions are counted.
export function countedNames(data) {
  const named = data.named.filter(({ decides, hasThreshold }) => decides && hasThreshold);
  return [...DECISIONS, ...named.map(({ name }) => name)];
}

// The visible signals whose decisions are counted. If none is visible, both probabilities.
export function decidingSignals(data) {
  const counted = countedNames(data),
    found = visibleSignals(data).filter(({ name }) => counted.includes(name));
  return found.length ? found : DECISIONS.map((name) => signalOf(data, name));
}
