// The signals of a run: its two probabilities, and the named ones that any model may have.

import { countTriggers, hasSignal, kindOf } from "./policy.js";

export const DECISIONS = ["speak", "update"];
const LINES = ["latency", "user", "done", "reference"]; // colours of named signals, in turn

export const decodeFloats = (packed) => new Float64Array(decodeBytes(packed).buffer);

// `Uint8Array.from` with a function takes ten times as long, a tenth of opening three hours.
export function decodeBytes(packed) {
  const text = atob(packed),
    bytes = new Uint8Array(text.length);
  for (let index = 0; index < bytes.length; index++) bytes[index] = text.charCodeAt(index);
  return bytes;
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
  const series = `${signal.name} level`,
    { low, high } = signal;
  const counter = countSignal(data, signal, threshold);
  data[series] = levelsOf(counter, data[signal.name]);
  const range = rangeOf(low, high);
  if (range.high === Infinity) range.high = highestLevel(data[series], threshold);
  return { ...signal, ...range, series, counter };
}

const countSignal = (data, { policy, decides }, threshold) =>
  countTriggers(policy, decides ?? "speak", threshold, data.fps);
const levelsOf = (counter, values) =>
  Float64Array.from(values, (value) => {
    counter.add(value);
    return counter.level;
  });
const highestLevel = (levels, threshold) => 1.25 * levels.reduce((a, b) => (b > a ? b : a), threshold) || 1;

// Appends values to a named signal of a run that streams, where `grow(series, values)` returns the longer series.
export function appendSignal(data, signal, values, grow) {
  data[signal.name] = grow(signal.name, values);
  if (signal.series === signal.name) return;
  const added = levelsOf(signal.counter, values);
  data[signal.series] = grow(signal.series, added);
  if (kindOf(signal.policy).range(0, 1).high === Infinity)
    signal.high = Math.max(signal.high, highestLevel(added, signal.threshold ?? 0));
}

// Computes the levels of a signal again, in place, for another threshold: the resets of a sum depend on it. A signal
// that has no threshold yet gets one.
export function setLevels(data, name, threshold) {
  const signal = signalOf(data, name);
  if (!signal.hasThreshold) Object.assign(signal, withLevels(data, signal, threshold), { hasThreshold: true });
  else if (signal.series !== name) {
    signal.counter = countSignal(data, signal, threshold);
    data[signal.series] = levelsOf(signal.counter, data[name]);
  }
}

// The title of a signal in a text that has room, with a warning if the model was never trained for it.
export const fullTitle = ({ title, isUntrained }) => (isUntrained ? `${title} (untrained)` : title);

export function signalOf(data, name) {
  if (!DECISIONS.includes(name)) return data.named.find((signal) => signal.name === name);
  const isTraced = hasValues(data, name),
    head = { name, title: name, decides: name, low: 0, high: 1, colour: name, series: name };
  const hasThreshold = isTraced && name in data.thresholds,
    found = { policy: data.policy, isTraced, hasThreshold, canMove: isTraced };
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
