// Unpacks the server's payload once, and counts decisions when a threshold moves.

import { convertTheta, countTriggers, hasTheta } from "./policy.js";
import { countedNames, decodeFloats, prepareSignals, signalOf } from "./signals.js";

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

// Why a turn of the reference is hard, where the split's manifest names a cause.
const CAUSES = {
  drop: "a part falls and is picked up again",
  decoy: "a part that is not needed is taken and put back",
  hover: "a hand stays over a part and takes nothing",
  swap: "two neighbouring steps are done in the other order",
  light: "the light is dim, or fails for seconds",
  noise: "the picture is noisy, or worse for seconds",
};

// The meanings of causes by name: those of the split's vocabulary and the built-in ones.
export function causeMeanings(player) {
  return { ...CAUSES, ...Object.fromEntries(player.review.state?.vocabulary?.causes ?? []) };
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
    countedNames(other).map((name) => [name, countEvents(other, name, other.thresholds[name], false)]),
  );
  other.shown = { thresholds: other.thresholds, counts };
  return data;
}

export function prepareRun(data) {
  for (const name of SERIES) data[name] = decodeFloats(data[name]);
  prepareSignals(data);
  derive(data);
  Object.assign(data, { progress: null, judged: [], layer: [] });
  return data;
}

// Derives lists, times and keys from all frames and turns of a run; again when a streaming run has grown.
export function derive(data) {
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
}

export function timeOf(data, frame) {
  return frame < data.times.length ? data.times[frame] : frame / data.fps;
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

// By time; at one time updates, then the user, then the assistant, and the model before the reference.
function transcriptRows(data) {
  const taken = new Set(data.turns.map((turn) => turn.link).filter((link) => link !== null)),
    ranks = { update: 0, user: 1, assistant: 2 };
  const rows = data.turns.map((turn, number) => {
    const { time, role, link } = turn;
    return { time, role, turn, number, link, reference: link === null ? null : data.references[link] };
  });
  for (const [link, reference] of data.references.entries()) {
    const { time, role } = reference;
    if (!taken.has(link)) rows.push({ time, role, turn: null, number: null, link, reference });
  }
  return rows.sort((a, b) => a.time - b.time || ranks[a.role] - ranks[b.role]);
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

// The decisions of one kind, of the run or (a preview) of another threshold on the same trace, by how they pair with
// the reference: `hits`, and without a pair `alarms` of the decisions and `misses` of the reference.
export function countEvents(data, name, threshold, isPreview) {
  const { policy, decides } = signalOf(data, name);
  let decided = data.decided[name];
  if (isPreview || !decided) {
    const triggers = countTriggers(policy, decides, threshold, data.fps);
    decided = [];
    data[name].forEach((value, frame) => triggers.add(value) && decided.push(frame));
  }
  if (!data.expected) return { hits: decided, misses: [], alarms: [] };
  return pairEvents(decided, data.expected[decides], data.tolerance_frames);
}

// Pairs as many decisions as possible with the reference, at most the tolerance (in frames) apart, of sorted lists.
export function pairEvents(decided, expected, tolerance) {
  const [hits, misses, alarms] = [[], [], []];
  let [at, wanted] = [0, 0];
  while (at < decided.length && wanted < expected.length) {
    const apart = decided[at] - expected[wanted];
    if (Math.abs(apart) <= tolerance) {
      hits.push(decided[at++]);
      wanted += 1;
    } else if (apart < 0) alarms.push(decided[at++]);
    else misses.push(expected[wanted++]);
  }
  return { hits, misses: misses.concat(expected.slice(wanted)), alarms: alarms.concat(decided.slice(at)) };
}

const CURVE_POINTS = 200;

// Generates precision and recall of events at up to 200 thresholds, the distinct known values of the trace: all of them
// take long on a long run.
export function* curvePoints(data, name) {
  const { series, low } = signalOf(data, name),
    known = data[series].filter((value) => !Number.isNaN(value)).toSorted();
  const values = known.filter((value, number) => value !== known[number - 1]),
    stride = Math.max(1, Math.ceil(values.length / CURVE_POINTS)),
    chosen = [...values].filter((_, number) => number % stride === 0);
  for (const threshold of [low, ...chosen.map((value) => Number(value.toPrecision(5)))])
    yield { threshold, ...rates(countEvents(data, name, threshold, true)) };
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
  const ticks = Math.round(Math.max(0, time) * 10 ** digits);
  const minutes = Math.floor(ticks / (60 * 10 ** digits));
  const rest = ((ticks - minutes * 60 * 10 ** digits) / 10 ** digits).toFixed(digits);
  return `${minutes}:${rest.padStart(digits ? digits + 3 : 2, "0")}`;
}

// A corrected time, with milliseconds if tenths would round it.
export function correctedText(time) {
  return clockText(time, Math.abs(10 * time - Math.round(10 * time)) < 1e-6 ? 1 : 3);
}

// A threshold with all its digits, at least two; a probability with enough digits to compare with it.
export function thresholdText(value) {
  return value.toFixed(decimalsOf(value));
}
// A threshold as text; one of a rule with theta has theta beside it.
export function thresholdWords(policy, value) {
  return `${thresholdText(value)}${hasTheta(policy) ? ` (theta ${thresholdText(convertTheta(value))})` : ""}`;
}
export function probText(prob, threshold) {
  return prob.toFixed(Math.max(3, decimalsOf(threshold)));
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
