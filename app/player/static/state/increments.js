// A run that streams: each increment from the server is appended to the data, with work that does not grow with the
// run.

import { dropFrames, insertRow, moveFrames, referenceRow, SERIES, stateAt, timeOf, turnRow, unpack } from "./data.js";
import { appendSignal, DECISIONS, decodeFloats } from "./signals.js";

const POLL_INTERVAL_MS = 500,
  REQUEST_TIMEOUT_MS = 15000;
const LOST = "The connection to the server was lost: this continues when it answers again.",
  BACK = "The server answers again.",
  ENDED = "The server was started again, which has ended this.";
const LIVE_FRAMES = 7200; // kept of a live session, an hour at 2 fps; the run on the server has all of them

export function sleep(ms = 0) {
  return new Promise((done) => {
    setTimeout(done, ms);
  });
}

// Rejects if no answer arrives in time, for example over a connection that was lost silently.
export function withTimeout(answer) {
  const late = sleep(REQUEST_TIMEOUT_MS).then(() => Promise.reject(new Error("no answer in time")));
  return Promise.race([answer, late]);
}

// A growing array of numbers. The capacity doubles when it is full, so that an append takes constant time.
export class Series {
  constructor() {
    this.room = new Float64Array(1024);
    this.length = 0;
  }

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

  drop(count) {
    this.room.copyWithin(0, count, this.length);
    this.length -= count;
    return this.room.subarray(0, this.length);
  }
}

// The spans in which a step's state differs from the reference, up to the frames reached: see `stateDifferences`.
class GrowingDifferences {
  constructor(model, reference, spans) {
    Object.assign(this, { model, reference, spans, modelPiece: 0, referencePiece: 0 });
  }

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
    const frames = new Set(),
      { model, reference } = this;
    while (model[this.modelPiece]?.[0] < end) frames.add(Math.max(0, model[this.modelPiece++][0]));
    while (reference[this.referencePiece]?.[0] < end) frames.add(Math.max(0, reference[this.referencePiece++][0]));
    return [...frames].sort((a, b) => a - b);
  }
}

const OWN_LISTS = ["named", "turns", "changes", "questions"]; // each is appended in its own way

// The data of a run that streams, which `append` keeps as `unpack` would make it of the whole run.
export class GrowingRun {
  constructor(increment) {
    this.stream = increment.stream;
    this.data = unpack(increment.head);
    this.series = Object.fromEntries(SERIES.map((name) => [name, new Series()]));
    this.lists = []; // names of the lists that are appended as they come
    this.named = new Map(); // name of a series of a named signal -> its values
    const { bands } = this.data;
    this.differences = bands.model.map(
      (band, step) =>
        this.data.has_states &&
        bands.reference[step] &&
        new GrowingDifferences(band, bands.reference[step], this.data.differences[step]),
    );
  }

  get numFrames() {
    return this.data.times.length;
  }

  // The index of the next frame on the server: a live session has dropped its first frames here.
  get next() {
    return this.data.num_dropped + this.numFrames;
  }

  // Drops the oldest frames of a live session, a quarter of an hour at a time; returns whether it did. Memory and
  // work then do not grow with its length.
  drop() {
    const count = this.numFrames - LIVE_FRAMES;
    if (!this.data.is_live || this.data.named.length || count < LIVE_FRAMES / 4) return false;
    const series = Object.fromEntries(SERIES.map((name) => [name, this.series[name].drop(count)]));
    // a new object: nothing that was derived is kept
    this.data = dropFrames({ ...this.data, ...series }, count, this.lists);
    return true;
  }

  // Returns the new rows of the transcript, each with its index.
  append(increment) {
    const data = this.data,
      first = this.numFrames;
    const local = (entry) => moveFrames(entry, -data.num_dropped);
    for (const name of SERIES) data[name] = this.series[name].append(decodeFloats(increment[name]));
    const grow = (name, values) => this.growSeries(name, values);
    for (const [number, signal] of data.named.entries())
      appendSignal(data, signal, decodeFloats(increment.named[number]), grow);
    data.reached = data.times.length ? data.times.at(-1) + 1 / data.fps : 0;
    data.duration_s = Math.max(data.duration_s, data.times.at(-1) ?? 0);
    this.lists = Object.keys(increment).filter((name) => Array.isArray(increment[name]) && !OWN_LISTS.includes(name));
    for (const name of this.lists) data[name].push(...increment[name].map(local));
    for (const name of DECISIONS) {
      data.decided[name].push(...increment.decided[name].map(local));
      if (data.expected) data.expected[name].push(...increment.expected[name]);
    }
    for (const [step, frame, state] of increment.changes) data.bands.model[step].push(local([frame, state]));
    for (const differences of this.differences) differences?.extend(first, this.numFrames);
    data.progress = increment.progress && local(increment.progress); // the response that is being generated
    return [
      ...increment.questions.map((turn) => this.appendQuestion(local(turn))),
      ...increment.turns.map((turn) => this.appendTurn(local(turn))),
    ];
  }

  // Returns a longer series of a named signal. A moved threshold replaces the levels of a sum, which are then copied
  // again.
  growSeries(name, values) {
    const before = this.data[name],
      kept = this.named.get(name),
      series = kept?.view === before ? kept.series : new Series();
    if (!series.length) series.append(before);
    const view = series.append(values);
    this.named.set(name, { series, view });
    return view;
  }

  // Appends a question of a live session; returns as `appendTurn`.
  appendQuestion(turn) {
    const { references, userTurns, rows } = this.data;
    turn.key = null;
    references.push(turn);
    userTurns.push(turn);
    const row = { ...referenceRow(turn, references.length - 1), key: null };
    return { row, place: insertRow(rows, row) };
  }

  // Appends a turn; returns its row and the index at which the row was inserted.
  appendTurn(turn) {
    const { data } = this;
    turn.time = timeOf(data, turn.frame);
    turn.key = null; // a streaming run has no events to judge yet
    data.turns.push(turn);
    if (turn.role === "assistant") data.responses.push(turn);
    const row = { ...turnRow(data, turn, data.turns.length - 1), key: null };
    return { row, place: insertRow(data.rows, row) };
  }
}

// Receives a whole run, nothing, or the start of a streaming run from the server. Further frames of a streaming run are
// requested until another run arrives.
export class Receiver {
  // ask(stream, first): the frames of a stream from one on, as text, or null once it is over; isGone(): whether the
  // page has no player any more; onRun(data), onGrowth(rows): what to draw; onConnection(words): whether it is lost.
  constructor({ ask, isGone, onRun, onGrowth, onConnection }) {
    Object.assign(this, { ask, isGone, onRun, onGrowth, onConnection, run: null });
  }

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
    for (let isLost = false; ;) {
      await sleep(POLL_INTERVAL_MS);
      if (this.run !== run || this.isGone()) return;
      const text = await this.ask(run.stream, run.next).catch(() => undefined);
      if (this.run !== run) return;
      if (text === null && isLost) this.onConnection(ENDED);
      else if ((text === undefined) !== isLost) this.onConnection(isLost ? BACK : LOST);
      isLost = text === undefined;
      if (text === null) return;
      // the answer is too late, or Gradio says that the server does not answer: request it again
      if (isLost) continue;
      const before = run.numFrames,
        written = run.data.progress?.text,
        added = run.append(JSON.parse(text));
      if (run.drop()) this.onRun(run.data);
      else if (run.numFrames > before || run.data.progress?.text !== written) this.onGrowth(added);
    }
  }
}
