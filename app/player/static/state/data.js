// Unpacks the server's payload once, and counts decisions when a threshold moves.

import { convertTheta, countTriggers, exceeds, hasTheta, signOf } from "./policy.js";
import { DECISIONS, countedNames, decodeFloats, prepareSignals, signalOf } from "./signals.js";

export const KINDS = {
  missed: "✕",
  redundant: "+",
  "wrong text": "≠",
  "early or late": "↔",
  "wrong update": "◇",
  "missed update": "◆",
  "wrong state": "▨",
  "repeats itself": "↺",
};

export const LOW_SIMILARITY = "low similarity";

// The signs of what N and P stop at: failures, and matched texts of low similarity.
export const STOP_SIGNS = { ...KINDS, [LOW_SIMILARITY]: "≈" };

// In the mode in which N stops at first mistakes only, it also stops at those that corrections reveal.
export const HIDDEN_ROOT = "hidden mistake";
export const ROOT_SIGN = "⎇";

// The verdict on a turn as it is drawn: that of the scores, or "low" for a matched text of low similarity.
export function drawnVerdict({ is_low, verdict }) {
  return is_low ? "low" : verdict;
}

// The sign of a judged turn: that of its failure, else ≈ or ✓; "" for a turn that is not judged.
export function signOfTurn({ failure, verdict, is_low }) {
  return KINDS[failure] ?? (is_low ? STOP_SIGNS[LOW_SIMILARITY] : verdict ? "✓" : "");
}

// The word for the turns that a run is reviewed against: those of a live recording are a copy of its own.
export function referenceWord(data) {
  return data?.is_copied && !data.has_reference ? "copy" : "reference";
}

export const SIGNS = {
  // lanes add signs of their own
  "✓":
    "matched, at most 1 s away: the same update, or a text like the reference's; the similarity of " +
    "texts, above 0.5, is shown beside it",
  "≈":
    "low similarity: a matched text whose similarity is below 0.80, so with other words. N and P stop there too. " +
    "The scores count it as matched",
  "✕": "missed: the assistant was silent where the reference speaks",
  "+": "redundant: the assistant spoke with no reference near",
  "≠": "wrong text: it spoke in time and said something else",
  "↔": "early or late: right, but more than 1 s away",
  "◇": "wrong update: of another step or transition, or with no reference near",
  "◆": "missed update",
  "▨": "wrong state: the predicted state differs from the reference; hatched in the lanes",
  "↺": "repeats itself: redundant, and the same words as an earlier message of the video",
};

// An update in words, such as "began: mount the block"; as it is written if it is malformed or no steps are known.
export function updateWords(data, text) {
  const [, id, transition] = /^\s*(\S+?)\s*->\s*(start|complete)\s*$/.exec(text) ?? [],
    step = data.steps.find((one) => one.id === id);
  if (!id || !data.steps.length) return text;
  return `${transition === "start" ? "began" : "ended"}: ${step ? step.name || id : `${id} (no step of the task)`}`;
}

// The frames that a cut of the context dropped, in words; `cut` has tokens, first_frame and last_frame.
export function forgottenText({ tokens, first_frame: first, last_frame: last }) {
  if (first === null) return `${countText(tokens, "token")} forgotten`;
  const frames = first === last ? `frame ${first + 1}` : `frames ${first + 1} to ${last + 1}`;
  return `${frames} forgotten, ${countText(tokens, "token")}`;
}

// Why an instant of a live session has no decision, by the state that its output has.
const GAPS = {
  dropped: "its frame was dropped",
  "no picture": "the source had no picture",
  "not reached": "the session ended first",
};

// The state of the assistant at a frame; undefined or null without one.
export function assistantState(data, frame) {
  return data.assistant_states[countUpTo(data.assistant_states, frame, ([first]) => first) - 1]?.[1];
}

// Why a frame has no decision, in words; null if it has one.
export function gapText(data, frame) {
  const state = assistantState(data, frame) ?? "";
  return Number.isNaN(data.speak[frame]) && Object.hasOwn(GAPS, state) ? GAPS[state] : null;
}

export const SERIES = ["times", "speak", "update", "cache", "latency"];

export function unpack(packed) {
  const data = prepareRun(packed);
  if (!data.other) return data;
  const other = prepareRun(data.other);
  const counts = Object.fromEntries(
    countedNames(other).map((name) => [name, new EventCounts(other, name, other.thresholds[name], false).extend()]),
  );
  other.shown = { thresholds: other.thresholds, counts };
  return data;
}

export function prepareRun(data) {
  // frames that a live session has dropped from the start, and their time
  Object.assign(data, { num_dropped: 0, begin_s: 0, progress: null });
  for (const name of SERIES) data[name] = decodeFloats(data[name]);
  prepareSignals(data);
  data.reached = data.times.length ? data.times.at(-1) + 1 / data.fps : 0;
  for (const failure of data.failures) failure.time = timeOf(data, failure.frame);
  for (const turn of data.turns) if (turn.frame !== undefined) turn.time = timeOf(data, turn.frame);
  data.responses = data.turns.filter((turn) => turn.role === "assistant");
  const isAsked = ({ role, is_given }) => role === "user" && is_given;
  data.userTurns = data.references.filter(isAsked).sort((a, b) => a.time - b.time);
  data.referenceDialogue = data.references.filter((turn) => turn.role !== "update" && !isAsked(turn));
  data.referenceTurns = data.references.filter((turn) => turn.role === "assistant");
  data.isReferenceAlone = data.has_reference && !data.times.length && (data.events ?? []).length > 0; // no run is there
  data.differences = data.steps.map((_, step) => (data.has_states ? stateDifferences(data, step) : []));
  data.rows = transcriptRows(data);
  assignEventKeys(data);
  data.judged = data.layer = [];
  return data;
}

export function timeOf(data, frame) {
  return frame < data.times.length ? data.times[frame] : (frame + data.num_dropped) / data.fps;
}

// An entry of a list of the run, with its frames moved: a number is a frame, a list begins with one, and an object
// names them. Frames that the browser has dropped are negative.
export function moveFrames(entry, by) {
  if (typeof entry === "number") return entry + by;
  if (Array.isArray(entry)) return [entry[0] + by, ...entry.slice(1)];
  const frames = Object.entries(entry).filter(([name, value]) => /(^|_)frame$/.test(name) && value !== null);
  return { ...entry, ...Object.fromEntries(frames.map(([name, frame]) => [name, frame + by])) };
}

// Drops the first frames of a live session, whose series are without them already; the indices of all others move. The
// `lists` have entries at some frames, or pieces that each last until the next one.
export function dropFrames(data, count, lists) {
  const laterPieces = (pieces, first) =>
    pieces
      .slice(Math.max(0, countUpTo(pieces, count, ([frame]) => frame) - 1))
      .map(([frame, state]) => [frame > count ? frame - count : first, state]);
  const isLater = (entry) => (entry.frame ?? entry) >= count,
    later = (entries) =>
      Array.isArray(entries[0])
        ? laterPieces(entries, 0)
        : entries.filter(isLater).map((entry) => moveFrames(entry, -count));
  Object.assign(data, {
    num_dropped: data.num_dropped + count,
    begin_s: data.times[0],
    ...Object.fromEntries([...lists, "turns", "references"].map((name) => [name, later(data[name])])),
    decided: Object.fromEntries(DECISIONS.map((name) => [name, later(data.decided[name])])),
    bands: { ...data.bands, model: data.bands.model.map((band) => laterPieces(band, -1)) },
  });
  data.responses = data.turns.filter((turn) => turn.role === "assistant");
  data.userTurns = [...data.references];
  data.rows = transcriptRows(data);
  for (const row of data.rows) row.key = null;
  return data;
}

// The number of items of a sorted list whose key is at most the limit.
export function countUpTo(list, limit, key = (item) => item) {
  let low = 0,
    high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) <= limit) low = middle + 1;
    else high = middle;
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

// Yields the pieces of a band from the one at a frame on: their start and end in seconds, and their state. `end` is
// that of the last piece.
export function* piecesOf(data, band, end, frame = -1) {
  for (let number = Math.max(0, countUpTo(band, frame, (piece) => piece[0]) - 1); number < band.length; number += 1) {
    const [first, state] = band[number];
    const after = number + 1 < band.length ? timeOf(data, band[number + 1][0]) : end;
    yield { start: first < 0 ? 0 : timeOf(data, first), end: after, state };
  }
}

// The bands of each step, from the top. A reference without steps has none, nor has the model without a run or known
// states.
export function bandsOf(data) {
  const isKnown = { reference: data.bands.reference.length > 0, model: data.has_states && !data.isReferenceAlone };
  return ["reference", "model"].filter((name) => isKnown[name]);
}

function stateDifferences(data, step) {
  const [model, reference] = [data.bands.model[step], data.bands.reference[step]];
  if (!model || !reference) return [];
  const frames = [...new Set([...model, ...reference].map((piece) => Math.max(0, piece[0])))].sort((a, b) => a - b);
  const last = data.times.length;
  return frames
    .filter((frame) => frame < last)
    .map((frame, number, kept) => [frame, kept[number + 1] ?? last])
    .filter(([frame]) => stateAt(model, frame) !== stateAt(reference, frame));
}

function transcriptRows(data) {
  const taken = new Set(data.turns.map((turn) => turn.link).filter((link) => link !== null));
  const rows = data.turns.map((turn, number) => turnRow(data, turn, number));
  data.references.forEach((reference, number) => {
    if (!taken.has(number)) rows.push(referenceRow(reference, number));
  });
  return rows.sort(compareRows);
}

export function turnRow(data, turn, number) {
  const { time, role, link } = turn;
  return { time, role, turn, number, link, reference: link === null ? null : data.references[link] };
}

export function referenceRow(reference, link) {
  return { time: reference.time, role: reference.role, turn: null, number: null, link, reference };
}

// Sets the event keys of turns, failures and transcript rows; null without an event to judge.
function assignEventKeys(data) {
  const [ofTurn, ofReference, ofState] = [new Map(), new Map(), []];
  for (const { key, kind, turn, reference } of data.events ?? []) {
    if (turn !== null) ofTurn.set(turn, key);
    else if (reference !== null) ofReference.set(reference, key);
    else if (kind === "state") ofState.push(key); // times of wrong state are in the order of their failures
  }
  for (const [number, turn] of data.turns.entries()) turn.key = ofTurn.get(number) ?? null;
  for (const [number, turn] of data.references.entries()) turn.key = ofReference.get(number) ?? null;
  const key = (turn, reference) => (turn === null ? data.references[reference].key : data.turns[turn].key);
  let states = 0;
  for (const failure of data.failures)
    failure.key = failure.kind === "wrong state" ? (ofState[states++] ?? null) : key(failure.turn, failure.reference);
  for (const row of data.rows) row.key = key(row.number, row.link);
}

const RANKS = { update: 0, user: 1, assistant: 2 };

// By time; at one time updates, then the user, then the assistant, and the model before the reference.
function compareRows(a, b) {
  return (
    a.time - b.time ||
    RANKS[a.role] - RANKS[b.role] ||
    Number(!a.turn) - Number(!b.turn) ||
    (a.number ?? a.link) - (b.number ?? b.link)
  );
}

// Returns the place at which a row was inserted into sorted ones.
export function insertRow(rows, row) {
  const place = countUpTo(rows, 0, (other) => Number(compareRows(other, row) >= 0)); // after those that are before it
  rows.splice(place, 0, row);
  return place;
}

// Pairs as many decisions as possible with the reference, at most the tolerance (in frames) apart. Both lists are
// sorted and may grow.
export class EventPairs {
  constructor(tolerance) {
    Object.assign(this, { tolerance, hits: [], misses: [], alarms: [] });
    Object.assign(this, { decided: 0, expected: 0, numMisses: 0, numAlarms: 0 }); // those whose pairs are final
  }

  // Extends the pairs to `reached` frames. A decision that may still find a pair counts as unpaired until then.
  extend(decided, expected, reached) {
    const { hits, misses, alarms, tolerance } = this;
    misses.length = this.numMisses;
    alarms.length = this.numAlarms;
    while (this.decided < decided.length && this.expected < expected.length) {
      const apart = decided[this.decided] - expected[this.expected];
      if (Math.abs(apart) <= tolerance) {
        hits.push(decided[this.decided++]);
        this.expected += 1;
      } else if (apart < 0) alarms.push(decided[this.decided++]);
      else misses.push(expected[this.expected++]);
    }
    while (this.expected < expected.length && reached - expected[this.expected] > tolerance)
      misses.push(expected[this.expected++]);
    while (this.decided < decided.length && reached - decided[this.decided] > tolerance)
      alarms.push(decided[this.decided++]);
    [this.numMisses, this.numAlarms] = [misses.length, alarms.length];
    for (let number = this.expected; number < expected.length; number += 1) misses.push(expected[number]);
    for (let number = this.decided; number < decided.length; number += 1) alarms.push(decided[number]);
  }
}

// The decisions of one kind, of the run or (a preview) of another threshold on the same trace, and how
// they pair with the reference.
export class EventCounts {
  constructor(data, name, threshold, isPreview) {
    const { policy, decides } = signalOf(data, name),
      triggers = countTriggers(policy, decides, threshold, data.fps);
    this.isPreview = isPreview || !DECISIONS.includes(name);
    this.pairs = new EventPairs(data.tolerance_frames);
    Object.assign(this, { data, name, decides, threshold, triggers, decided: [], numFrames: 0 });
  }

  // Returns hits, misses and alarms up to the frames reached. Reads only new frames.
  extend() {
    const { data, name, decided } = this;
    if (this.isPreview) {
      const probs = data[name];
      for (let frame = this.numFrames; frame < probs.length; frame += 1)
        if (this.triggers.add(probs[frame])) decided.push(frame);
    }
    this.numFrames = data.times.length;
    const frames = this.isPreview ? decided : data.decided[name];
    if (!data.expected) return { hits: frames, misses: [], alarms: [] };
    this.pairs.extend(frames, data.expected[this.decides], data.times.length);
    return this.pairs;
  }
}

const CURVE_POINTS = 200;

// Precision and recall of events at up to 200 thresholds: the distinct known values of the trace, or evenly spaced ones
// while it grows.
export class Curve {
  constructor(data, name, isGrowing) {
    const { series, low, high } = signalOf(data, name),
      known = isGrowing ? [] : data[series].filter((value) => !Number.isNaN(value)).toSorted();
    // unknown values are no thresholds, and unequal to each other
    const values = known.filter((value, number) => value !== known[number - 1]);
    const stride = Math.max(1, Math.ceil(values.length / CURVE_POINTS)),
      chosen = [...values].filter((_, number) => number % stride === 0);
    const thresholds = isGrowing
      ? Array.from({ length: 51 }, (_, at) => low + ((high - low) * at) / 50)
      : [low, ...chosen.map((value) => Number(value.toPrecision(5)))];
    this.counts = thresholds.map((threshold) => new EventCounts(data, name, threshold, true));
  }

  // Generates the points, because all of them take long on a long run.
  *points() {
    for (const counts of this.counts) yield { threshold: counts.threshold, ...rates(counts.extend()) };
  }
}

export function rates({ hits, misses, alarms }) {
  const decided = hits.length + alarms.length,
    expected = hits.length + misses.length;
  return { precision: decided ? hits.length / decided : NaN, recall: expected ? hits.length / expected : NaN };
}

// A number with its noun, such as "1 video" or "2 videos".
export function countText(number, singular, plural = `${singular}s`) {
  return `${number} ${number === 1 ? singular : plural}`;
}

export function clockText(time, digits = 1) {
  const ticks = Math.round(Math.max(0, time) * 10 ** digits),
    minutes = Math.floor(ticks / (60 * 10 ** digits)),
    hours = Math.floor(minutes / 60),
    rest = ((ticks - minutes * 60 * 10 ** digits) / 10 ** digits).toFixed(digits),
    start = hours ? `${hours}:${String(minutes % 60).padStart(2, "0")}` : minutes;
  return `${start}:${rest.padStart(digits ? digits + 3 : 2, "0")}`;
}

// A corrected time, with milliseconds if tenths would round it.
export function correctedText(time) {
  return clockText(time, Math.abs(10 * time - Math.round(10 * time)) < 1e-6 ? 1 : 3);
}

// A threshold with all its digits, at least two; a probability with enough digits to compare with it.
export function thresholdText(value) {
  return value.toFixed(decimalsOf(value));
}
// A threshold as text; one of a rule with theta has theta beside it. That of a recorded run may be unknown.
export function thresholdWords(policy, value) {
  if (value === undefined) return "not known";
  return `${thresholdText(value)}${hasTheta(policy) ? ` (theta ${thresholdText(convertTheta(value))})` : ""}`;
}
export function probText(prob, threshold) {
  return prob.toFixed(threshold === undefined ? 3 : Math.max(3, decimalsOf(threshold)));
}
// A probability beside its threshold, such as "0.612 > 0.50"; without a known threshold the probability alone.
export function comparedText(policy, decides, prob, threshold) {
  if (Number.isNaN(prob)) return "not known";
  const sign = signOf(policy, exceeds(policy, decides, prob, threshold)),
    limit = threshold === undefined ? [] : [sign, thresholdWords(policy, threshold)];
  return [probText(prob, threshold), ...limit].join(" ");
}
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
