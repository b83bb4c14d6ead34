// Unpacks the server's payload once, and counts decisions when a threshold moves.

import { TriggerCounter } from "./policy.js";

export const KINDS = {
  "missed": "✕", "redundant": "+", "wrong text": "≠", "early or late": "↔",
  "wrong update": "◇", "missed update": "◆", "wrong state": "▨",
};

// Lanes add signs of their own.
export const SIGNS = {
  "✓": "matched, at most 1 s away: the same update, or a text like the reference's; the similarity of texts, above 0.5, is shown beside it",
  "≈": "low similarity: a matched text whose similarity is below the number that is set beside ≈, 0.80 at first. If ≈ is on, N and P stop there too. It is a setting of this browser: no failure, in no score and no export",
  "✕": "missed: the assistant was silent where the reference speaks",
  "+": "redundant: the assistant spoke with no reference near",
  "≠": "wrong text: it spoke in time and said something else",
  "↔": "early or late: right, but more than 1 s away",
  "◇": "wrong update: of another step or transition, or with no reference near",
  "◆": "missed update", "▨": "wrong state: the predicted state differs from the reference; hatched in the lanes",
};

// Why a turn of the reference is hard, where the split's manifest names a cause.
export const CAUSES = {
  drop: "a part falls and is picked up again",
  decoy: "a part that is not needed is taken and put back",
  hover: "a hand stays over a part and takes nothing",
  swap: "two neighbouring steps are done in the other order",
  light: "the light is dim, or fails for seconds",
  noise: "the picture is noisy, or worse for seconds",
};

export const DECISIONS = ["speak", "update"];
export const SERIES = ["times", "speak", "update", "cache", "latency"];

export function decodeFloats(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

export function unpack(packed) {
  const data = prepareRun(packed);
  if (!data.other) return data;
  const other = prepareRun(data.other);
  const counts = Object.fromEntries(DECISIONS.map((name) => [name, new EventCounts(other, name, other.thresholds[name], false).extend()]));
  other.shown = { thresholds: other.thresholds, counts };
  return data;
}

export function prepareRun(data) {
  for (const name of SERIES) data[name] = decodeFloats(data[name]);
  data.reached = data.times.length ? data.times.at(-1) + 1 / data.fps : 0;
  data.failures.forEach((failure) => { failure.time = timeOf(data, failure.frame); });
  data.turns.forEach((turn) => setTurnTime(data, turn));
  data.responses = data.turns.filter((turn) => turn.role === "assistant");
  data.userTurns = data.references.filter((turn) => turn.role === "user" && turn.is_given).sort((a, b) => a.time - b.time);
  data.referenceDialogue = data.references.filter((turn) => turn.role === "assistant" || turn.role === "user" && !turn.is_given);
  data.referenceTurns = data.references.filter((turn) => turn.role === "assistant");
  data.isReferenceAlone = data.has_reference && !data.times.length && (data.events ?? []).length > 0; // no run is there
  data.differences = data.steps.map((_, step) => stateDifferences(data, step));
  data.rows = transcriptRows(data);
  assignEventKeys(data);
  data.judged = data.layer = [];
  return data;
}

// Sets a turn's time.
export function setTurnTime(data, turn) {
  if (turn.frame !== undefined) turn.time = timeOf(data, turn.frame);
  return turn;
}

export function timeOf(data, frame) {
  return frame < data.times.length ? data.times[frame] : frame / data.fps;
}

// The number of items of a sorted list whose key is at most the limit.
export function countUpTo(list, limit, key = (item) => item) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) <= limit) low = middle + 1; else high = middle;
  }
  return low;
}

export function frameAt(data, time) {
  return Math.max(0, countUpTo(data.times, time + 1e-4) - 1);
}

// The frame of the whole video's grid, whether a run has reached it or not.
export function gridFrame(data, time) {
  return Math.floor((time + 1e-4) * data.fps);
}

// A band is a list of [first frame, state], the first one at frame -1: before the video.
export function stateAt(band, frame) {
  return band.length ? band[Math.max(0, countUpTo(band, frame, (piece) => piece[0]) - 1)][1] : null;
}

// The bands of each step, from the top. Without a run, there is none of the model.
export function bandsOf(data) {
  if (data.isReferenceAlone) return ["reference"];
  return data.has_reference ? ["reference", "model"] : ["model"];
}

function stateDifferences(data, step) {
  const [model, reference] = [data.bands.model[step], data.bands.reference[step]];
  if (!model || !reference) return [];
  const frames = [...new Set([...model, ...reference].map((piece) => Math.max(0, piece[0])))].sort((a, b) => a - b);
  const last = data.times.length;
  return frames.filter((frame) => frame < last).map((frame, number, kept) => [frame, kept[number + 1] ?? last])
    .filter(([frame]) => stateAt(model, frame) !== stateAt(reference, frame));
}

function transcriptRows(data) {
  const taken = new Set(data.turns.map((turn) => turn.link).filter((link) => link !== null));
  const rows = data.turns.map((turn, number) => turnRow(data, turn, number));
  data.references.forEach((reference, number) => {
    if (!taken.has(number)) rows.push({time: reference.time, role: reference.role, turn: null, number: null, link: number, reference});
  });
  return rows.sort(compareRows);
}

export function turnRow(data, turn, number) {
  return {time: turn.time, role: turn.role, turn, number, link: turn.link, reference: turn.link === null ? null : data.references[turn.link]};
}

// Sets the event keys of turns, failures and transcript rows; null without an event to judge.
function assignEventKeys(data) {
  const [ofTurn, ofReference, ofState] = [new Map(), new Map(), []];
  for (const { key, kind, turn, reference } of data.events ?? []) {
    if (turn !== null) ofTurn.set(turn, key);
    else if (reference !== null) ofReference.set(reference, key);
    else if (kind === "state") ofState.push(key); // times of wrong state are in the order of their failures
  }
  data.turns.forEach((turn, number) => { turn.key = ofTurn.get(number) ?? null; });
  data.references.forEach((turn, number) => { turn.key = ofReference.get(number) ?? null; });
  const key = (turn, reference) => (turn === null ? data.references[reference].key : data.turns[turn].key);
  let states = 0;
  for (const failure of data.failures) failure.key = failure.kind === "wrong state" ? ofState[states++] ?? null : key(failure.turn, failure.reference);
  for (const row of data.rows) row.key = key(row.number, row.link);
}

const RANKS = {update: 0, user: 1, assistant: 2};

// By time; at one time updates, then the user, then the assistant, and the model before the reference.
export function compareRows(a, b) {
  return a.time - b.time || RANKS[a.role] - RANKS[b.role] || Number(!a.turn) - Number(!b.turn) || (a.number ?? a.link) - (b.number ?? b.link);
}

// Pairs as many decisions as possible with the reference, at most the tolerance (in frames) apart. Both lists are
// sorted and may grow.
export class EventPairs {
  constructor(tolerance) {
    Object.assign(this, {tolerance, hits: [], misses: [], alarms: [], decided: 0, expected: 0, numMisses: 0, numAlarms: 0});
  }

  // Extends the pairs to `reached` frames. A decision that may still find a pair counts as unpaired until then.
  extend(decided, expected, reached) {
    const {hits, misses, alarms, tolerance} = this;
    misses.length = this.numMisses;
    alarms.length = this.numAlarms;
    while (this.decided < decided.length && this.expected < expected.length) {
      const apart = decided[this.decided] - expected[this.expected];
      if (Math.abs(apart) <= tolerance) { hits.push(decided[this.decided++]); this.expected += 1; }
      else if (apart < 0) alarms.push(decided[this.decided++]);
      else misses.push(expected[this.expected++]);
    }
    while (this.expected < expected.length && reached - expected[this.expected] > tolerance) misses.push(expected[this.expected++]);
    while (this.decided < decided.length && reached - decided[this.decided] > tolerance) alarms.push(decided[this.decided++]);
    [this.numMisses, this.numAlarms] = [misses.length, alarms.length];
    for (let number = this.expected; number < expected.length; number += 1) misses.push(expected[number]);
    for (let number = this.decided; number < decided.length; number += 1) alarms.push(decided[number]);
  }
}

// The decisions of one kind, of the run or (a preview) of another threshold on the same trace, and how
// they pair with the reference.
export class EventCounts {
  constructor(data, name, threshold, isPreview) {
    const triggers = new TriggerCounter(data.policy, name, threshold);
    Object.assign(this, {data, name, threshold, isPreview, triggers, decided: [], numFrames: 0, pairs: new EventPairs(data.tolerance_frames)});
  }

  // Returns hits, misses and alarms up to the frames reached. Reads only new frames.
  extend() {
    const {data, name, decided} = this;
    if (this.isPreview) {
      const probs = data[name];
      for (let frame = this.numFrames; frame < probs.length; frame += 1) if (this.triggers.add(probs[frame])) decided.push(frame);
    }
    this.numFrames = data.times.length;
    const frames = this.isPreview ? decided : data.decided[name];
    if (!data.expected) return {hits: frames, misses: [], alarms: []};
    this.pairs.extend(frames, data.expected[name], data.times.length);
    return this.pairs;
  }
}

const CURVE_POINTS = 200;

// Precision and recall of events at up to 200 thresholds: the distinct values of the trace, or evenly spaced ones while it grows.
export class Curve {
  constructor(data, name, isGrowing) {
    const sorted = isGrowing ? [] : [...new Set(data[name])].sort((a, b) => a - b);
    const stride = Math.max(1, Math.ceil(sorted.length / CURVE_POINTS));
    const thresholds = isGrowing ? Array.from({length: 51}, (_, at) => at / 50) : [0, ...sorted.filter((_, number) => number % stride === 0)];
    this.counts = thresholds.map((threshold) => new EventCounts(data, name, threshold, true));
  }

  points() { return this.counts.map((counts) => ({threshold: counts.threshold, ...rates(counts.extend())})); }
}

export function rates({hits, misses, alarms}) {
  const decided = hits.length + alarms.length, expected = hits.length + misses.length;
  return {precision: decided ? hits.length / decided : NaN, recall: expected ? hits.length / expected : NaN};
}

export function clockText(time, digits = 1) {
  const ticks = Math.round(Math.max(0, time) * 10 ** digits);
  const minutes = Math.floor(ticks / (60 * 10 ** digits));
  const rest = ((ticks - minutes * 60 * 10 ** digits) / 10 ** digits).toFixed(digits);
  return `${minutes}:${rest.padStart(digits ? digits + 3 : 2, "0")}`;
}

// A threshold with all its digits, at least two; a probability with enough digits to compare with it.
export function thresholdText(value) { return value.toFixed(decimalsOf(value)); }
export function probText(prob, threshold) { return prob.toFixed(Math.max(3, decimalsOf(threshold))); }
function decimalsOf(value) {
  let digits = 2;
  while (digits < 20 && Number(value.toFixed(digits)) !== value) digits += 1;
  return digits;
}

// A frame without model time was not computed: its result was reused from the previous run.
export function modelTimeText(ms) {
  if (Number.isNaN(ms)) return "model time not known";
  return ms === 0 ? "reused from the previous run, not computed again" : `${ms.toFixed(1)} ms of model time`;
}

// Parses a time such as 90, 1:30 or 0:01:30 to seconds; NaN for other text.
export function parseTime(text) {
  return text.split(":").reduce((total, part) => 60 * total + (part.trim() ? Number(part) : NaN), 0);
}
