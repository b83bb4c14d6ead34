// What the server packed, unpacked once; and what is counted from a trace when a threshold moves.

const KINDS = {
  "missed": "✕", "redundant": "+", "wrong text": "≠", "early or late": "↔",
  "wrong update": "◇", "missed update": "◆", "wrong state": "▨",
};
const SIGNS = {
  "✓": "matched: the same in other words or the same words, at most 1 s away",
  "✕": "missed: the assistant was silent where the reference speaks",
  "+": "redundant: the assistant spoke with no reference near",
  "≠": "wrong text: it spoke in time and said something else",
  "↔": "early or late: right, but more than 1 s away",
  "◇": "wrong update: of another step or transition, or with no reference near",
  "◆": "missed update", "▨": "wrong state: the belief differs from the reference; hatched in the lanes",
  "● ▲ ✕": "on the probabilities: a decision in time (within 1 s of the reference), a false one, a missed one",
  "↻": "refresh: the context was full and began anew from the prompt",
};
const DECISIONS = ["speak", "update"];

function numbers(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

function unpack(text) {
  const data = ready(JSON.parse(text));
  if (!data.other) return data;
  const other = ready(data.other);
  const counts = Object.fromEntries(DECISIONS.map((name) => [name, countEvents(other, name, other.thresholds[name], false)]));
  other.shown = { thresholds: other.thresholds, counts };
  return data;
}

function ready(data) {
  for (const name of ["times", "speak", "update", "cache", "latency"]) data[name] = numbers(data[name]);
  data.reached = data.times.length ? data.times.at(-1) + 1 / data.fps : 0;
  data.failures.forEach((failure) => { failure.time = timeOf(data, failure.frame); });
  data.turns.forEach((turn) => { turn.time = turn.frame === undefined ? turn.time : timeOf(data, turn.frame); });
  data.said = data.turns.filter((turn) => turn.role === "assistant");
  data.asked = data.references.filter((turn) => turn.role === "user");
  data.wanted = data.references.filter((turn) => turn.role === "assistant");
  data.differences = data.steps.map((_, step) => differences(data, step));
  data.rows = transcriptRows(data);
  data.judged = data.layer = [];
  return data;
}

function timeOf(data, frame) {
  return frame < data.times.length ? data.times[frame] : frame / data.fps;
}

// The number of items of a sorted list whose key is at most the limit.
function countUpTo(list, limit, key = (item) => item) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) <= limit) low = middle + 1; else high = middle;
  }
  return low;
}

function frameAt(data, time) {
  return Math.max(0, countUpTo(data.times, time + 1e-4) - 1);
}

// The frame of the whole video's grid, whether a run has reached it or not.
function gridFrame(data, time) {
  return Math.floor((time + 1e-4) * data.fps);
}

// A band is a list of [first frame, state], the first one at frame -1: before the video.
function stateAt(band, frame) {
  return band.length ? band[Math.max(0, countUpTo(band, frame, (piece) => piece[0]) - 1)][1] : null;
}

function differences(data, step) {
  const [model, reference] = [data.bands.model[step], data.bands.reference[step]];
  if (!model || !reference) return [];
  const frames = [...new Set([...model, ...reference].map((piece) => Math.max(0, piece[0])))].sort((a, b) => a - b);
  const last = data.times.length;
  return frames.filter((frame) => frame < last).map((frame, number, kept) => [frame, kept[number + 1] ?? last])
    .filter(([frame]) => stateAt(model, frame) !== stateAt(reference, frame));
}

function transcriptRows(data) {
  const taken = new Set(data.turns.map((turn) => turn.link).filter((link) => link !== null));
  const rows = data.turns.map((turn, number) => ({
    time: turn.time, role: turn.role, turn, number, link: turn.link,
    reference: turn.link === null ? null : data.references[turn.link],
  }));
  data.references.forEach((reference, number) => {
    if (!taken.has(number)) rows.push({time: reference.time, role: reference.role, turn: null, number: null, link: number, reference});
  });
  const ranks = {update: 0, user: 1, assistant: 2};
  return rows.sort((a, b) => a.time - b.time || ranks[a.role] - ranks[b.role]);
}

// What was decided: in the run, or what a threshold would decide from the same trace.
function decidedFrames(data, name, threshold, isPreview) {
  if (!isPreview) return data.decided[name];
  const probs = data[name], frames = [];
  const reaches = data.policy === "not-talk" ? (prob) => prob >= threshold : (prob) => prob > threshold;
  for (let frame = 0; frame < probs.length; frame += 1) if (reaches(probs[frame])) frames.push(frame);
  return frames;
}

// Pairs as many decisions as possible with the reference, none further apart than the tolerance: both lists are sorted.
function pairEvents(decided, expected, tolerance) {
  const hits = [], misses = [], alarms = [];
  let one = 0, other = 0;
  while (one < decided.length && other < expected.length) {
    const apart = decided[one] - expected[other];
    if (Math.abs(apart) <= tolerance) { hits.push(decided[one]); one += 1; other += 1; }
    else if (apart < 0) alarms.push(decided[one++]);
    else misses.push(expected[other++]);
  }
  return {hits, misses: misses.concat(expected.slice(other)), alarms: alarms.concat(decided.slice(one))};
}

function countEvents(data, name, threshold, isPreview) {
  const decided = decidedFrames(data, name, threshold, isPreview);
  if (!data.expected) return {hits: decided, misses: [], alarms: []};
  return pairEvents(decided, data.expected[name], data.tolerance_frames);
}

// Precision and recall of events at up to 200 thresholds that the trace tells apart.
function precisionRecall(data, name) {
  const sorted = [...new Set(data[name])].sort((a, b) => a - b);
  const stride = Math.max(1, Math.ceil(sorted.length / 200));
  const thresholds = [0, ...sorted.filter((_, number) => number % stride === 0)];
  return thresholds.map((threshold) => ({threshold, ...rates(countEvents(data, name, threshold, true))}));
}

function rates({hits, misses, alarms}) {
  const decided = hits.length + alarms.length, expected = hits.length + misses.length;
  return {precision: decided ? hits.length / decided : NaN, recall: expected ? hits.length / expected : NaN};
}

function clockText(time, digits = 1) {
  const ticks = Math.round(Math.max(0, time) * 10 ** digits);
  const minutes = Math.floor(ticks / (60 * 10 ** digits));
  const rest = ((ticks - minutes * 60 * 10 ** digits) / 10 ** digits).toFixed(digits);
  return `${minutes}:${rest.padStart(digits ? digits + 3 : 2, "0")}`;
}
