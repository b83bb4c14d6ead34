// A run that streams: each increment from the server is appended to the data, with work that does not grow with the run.

import { compareRows, DECISIONS, decodeFloats, prepareRun, SERIES, setTurnTime, stateAt, turnRow, unpack } from "./data.js";

const POLL_INTERVAL_MS = 400, REQUEST_TIMEOUT_MS = 15000;

// Rejects if no answer arrives in time, for example over a connection that was lost silently.
export function withTimeout(answer) {
  return Promise.race([answer, new Promise((_, fail) => { setTimeout(() => fail(new Error("no answer in time")), REQUEST_TIMEOUT_MS); })]);
}

// A growing array of numbers. The capacity doubles when it is full, so that an append takes constant time.
export class Series {
  constructor() { this.room = new Float64Array(1024); this.length = 0; }

  append(values) {
    const length = this.length + values.length;
    if (length > this.room.length) {
      const room = new Float64Array(Math.max(length, 2 * this.room.length));
      room.set(this.room.subarray(0, this.length));
      this.room = room;
    }
    this.room.set(values, this.length);
    this.length = length;
    return this.room.subarray(0, length);
  }
}

// The spans in which a step's state differs from the reference, up to the frames reached: see `stateDifferences`.
class GrowingDifferences {
  constructor(model, reference, spans) { Object.assign(this, { model, reference, spans, modelPiece: 0, referencePiece: 0 }); }

  // Extends the spans by the frames from `first` to before `end`.
  extend(first, end) {
    const last = this.spans.at(-1);
    if (last && last[1] === first) last[1] = end; // it continues unless a change below ends it
    for (const frame of this.changes(end)) {
      const before = this.spans.at(-1);
      if (before && before[1] > frame) before[1] = frame;
      if (stateAt(this.model, frame) !== stateAt(this.reference, frame)) this.spans.push([frame, end]);
    }
  }

  changes(end) {
    const frames = new Set();
    while (this.modelPiece < this.model.length && this.model[this.modelPiece][0] < end) frames.add(Math.max(0, this.model[this.modelPiece++][0]));
    while (this.referencePiece < this.reference.length && this.reference[this.referencePiece][0] < end) frames.add(Math.max(0, this.reference[this.referencePiece++][0]));
    return [...frames].sort((a, b) => a - b);
  }
}

// The data of a run that streams, which `append` keeps as `unpack` would make it of the whole run.
export class GrowingRun {
  constructor(increment) {
    this.stream = increment.stream;
    this.data = prepareRun(increment.head);
    this.series = Object.fromEntries(SERIES.map((name) => [name, new Series()]));
    const { bands } = this.data;
    this.differences = bands.model.map((band, step) => bands.reference[step] && new GrowingDifferences(band, bands.reference[step], this.data.differences[step]));
  }

  get numFrames() { return this.data.times.length; }

  // Returns the new rows of the transcript, each with its index.
  append(increment) {
    const data = this.data, first = this.numFrames;
    for (const name of SERIES) data[name] = this.series[name].append(decodeFloats(increment[name]));
    for (let frame = first; frame < this.numFrames; frame += 1) if (data.latency[frame] > (this.latencyMost ?? 0)) this.latencyMost = data.latency[frame];
    data.latency_most = this.latencyMost || 1;
    data.reached = data.times.length ? data.times.at(-1) + 1 / data.fps : 0;
    data.duration_s = Math.max(data.duration_s, data.times.at(-1) ?? 0);
    data.refreshed.push(...increment.refreshed);
    for (const name of DECISIONS) {
      data.decided[name].push(...increment.decided[name]);
      if (data.expected) data.expected[name].push(...increment.expected[name]);
    }
    for (const [step, frame, state] of increment.changes) data.bands.model[step].push([frame, state]);
    for (const differences of this.differences) differences?.extend(first, this.numFrames);
    return increment.turns.map((turn) => this.appendTurn(turn));
  }

  // Appends a turn; returns its row and the index at which the row was inserted.
  appendTurn(turn) {
    const { data } = this, row = turnRow(data, setTurnTime(data, turn), data.turns.length);
    row.key = turn.key = null; // a streaming run has no events to judge yet
    data.turns.push(turn);
    if (turn.role === "assistant") data.responses.push(turn);
    let [low, high] = [0, data.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compareRows(data.rows[middle], row) < 0) low = middle + 1; else high = middle;
    }
    data.rows.splice(low, 0, row);
    return { row, place: low };
  }
}

// Receives a whole run, nothing, or the start of a streaming run from the server. Further frames of a streaming run are
// requested until another run arrives.
export class Receiver {
  // ask(stream, first): the frames of a stream from one on, as text, or null once it is over; isGone(): whether the page
  // has no player any more; onRun(data), onGrowth(rows): what to draw.
  constructor({ ask, isGone, onRun, onGrowth }) { Object.assign(this, { ask, isGone, onRun, onGrowth, run: null }); }

  receive(text) {
    const packed = text ? JSON.parse(text) : null;
    if (!packed?.stream) {
      this.run = null;
      return this.onRun(packed && unpack(packed));
    }
    this.run = new GrowingRun(packed);
    this.run.append(packed);
    this.onRun(this.run.data);
    this.follow(this.run);
  }

  async follow(run) {
    for (;;) {
      await new Promise((done) => { setTimeout(done, POLL_INTERVAL_MS); });
      if (this.run !== run || this.isGone()) return;
      let text;
      try { text = await this.ask(run.stream, run.numFrames); } catch { continue; } // too late: request it again
      if (text === null || this.run !== run) return;
      if (text === undefined) continue; // Gradio returns undefined when the server does not answer
      const before = run.numFrames, added = run.append(JSON.parse(text));
      if (run.numFrames > before) this.onGrowth(added);
    }
  }
}
