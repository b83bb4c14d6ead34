// A run that streams: each increment from the server is appended to its data.

import { derive, prepareRun, SERIES, unpack } from "./data.js";
import { appendSignal, concatenate, DECISIONS, decodeFloats } from "./signals.js";

const POLL_INTERVAL_MS = 500,
  REQUEST_TIMEOUT_MS = 15000;

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

// Appends an increment to the data of a run, which then is as `unpack` would make it of the whole run.
export function append(data, increment) {
  for (const name of SERIES) data[name] = concatenate(data[name], decodeFloats(increment[name]));
  for (const [number, signal] of data.named.entries())
    appendSignal(data, signal, decodeFloats(increment.named[number]));
  for (const name of ["assistant_states", "refreshed", "forgotten", "turns"]) data[name].push(...increment[name]);
  data.references.push(...increment.questions);
  data.duration_s = Math.max(data.duration_s, data.times.at(-1) ?? 0);
  for (const name of DECISIONS) {
    data.decided[name].push(...increment.decided[name]);
    if (data.expected) data.expected[name].push(...increment.expected[name]);
  }
  for (const [step, frame, state] of increment.changes) data.bands.model[step].push([frame, state]);
  data.progress = increment.progress; // the response that is being generated
  derive(data);
}

// Receives a whole run, nothing, or the start of a streaming run from the server. Further frames of a streaming run are
// requested until another run arrives.
export class Receiver {
  // ask(stream, first): the frames of a stream from one on, as text, or null once it is over; isGone(): whether the
  // page has no player any more; onRun(data), onGrowth(): what to draw.
  constructor({ ask, isGone, onRun, onGrowth }) {
    Object.assign(this, { ask, isGone, onRun, onGrowth, growing: null });
  }

  receive(text) {
    const packed = text ? JSON.parse(text) : null,
      data = packed?.stream ? prepareRun(packed.head) : packed && unpack(packed);
    this.growing = packed?.stream ? data : null;
    if (this.growing) append(data, packed);
    this.onRun(data);
    if (this.growing) this.follow(data, packed.stream);
  }

  async follow(data, stream) {
    for (;;) {
      await sleep(POLL_INTERVAL_MS);
      if (this.growing !== data || this.isGone()) return;
      const text = await this.ask(stream, data.times.length).catch(() => undefined);
      if (text === null || this.growing !== data) return;
      // the answer is too late, or Gradio says that the server does not answer: request it again
      if (text === undefined) continue;
      const { times, progress } = data;
      append(data, JSON.parse(text));
      if (data.times.length > times.length || data.progress?.text !== progress?.text) this.onGrowth();
    }
  }
}
