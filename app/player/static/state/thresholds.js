// The thresholds of a player. Its probabilities take them from the first of these that there is:
//   moved      previewed on the trace, by a slider, a line or the sweep; not requested yet
//   requested  from the server, as an exact run that is not shown yet
//   run        the run that is shown
//   latest     the last ones: a page without a run keeps them for the run that is started next
// A recorded or imported run may lack thresholds: it is previewed, and never requested.
// A named signal is decided by no model here: its threshold stays moved as long as its run is shown.

import { DECISIONS, setLevels, visibleSignals } from "./signals.js";
import { countUpTo, thresholdWords } from "./data.js";

export const isThreshold = (value) => Number.isFinite(value) && value >= 0 && value <= 1;
const areEqual = (one, other) => DECISIONS.every((name) => one[name] === other[name]);
const ofProbabilities = (values) =>
  Object.fromEntries(DECISIONS.filter((name) => name in values).map((name) => [name, values[name]]));

export class Thresholds {
  constructor(shown = { speak: 0.5, update: 0.5 }) {
    Object.assign(this, { run: null, moved: null, requested: null, ticket: 0, shown, latest: shown });
    this.movedSignals = new WeakMap(); // run -> the moved thresholds of its named signals
    this.ofSweep = new Map(); // name of a run -> the thresholds of its named signals that the sweep set, by their keys
  }

  // Whether decisions are previewed that are not those of the run.
  get isPreview() {
    return this.run !== null && !areEqual(this.shown, this.run.thresholds);
  }

  // Whether the run that is shown, if any, has the thresholds of the sliders, and no other one is awaited.
  get isAtRest() {
    return !this.moved && !this.requested;
  }

  // Whether the run that is shown, if any, has both thresholds.
  get hasAll() {
    return !this.run || DECISIONS.every((name) => name in this.run.thresholds);
  }

  // Moves one threshold or both, or those of named signals. A value that is no threshold takes the move back. Returns
  // whether anything has changed.
  move(values) {
    const [first] = Object.keys(values);
    if (this.run?.named.some(({ name }) => name === first)) return this.moveSignals(values);
    const latest = ofProbabilities({ ...this.shown, ...values }),
      isMove = Object.values(latest).every(isThreshold);
    if (isMove && this.run && areEqual(latest, this.shown)) return false;
    this.moved = isMove ? latest : null;
    this.show();
    return true;
  }

  moveSignals(values) {
    this.movedSignals.set(this.run, { ...this.movedSignals.get(this.run), ...values });
    for (const [name, value] of Object.entries(values)) setLevels(this.run, name, value);
    this.show();
    return true;
  }

  // Previews the thresholds that a sweep set for named signals, in each video of its run. Returns whether it is.
  applySweep({ run, signals }) {
    this.ofSweep.set(run, signals);
    if (this.run?.run_name !== run) return false;
    this.moveToSweep();
    return true;
  }

  moveToSweep() {
    const wanted = this.ofSweep.get(this.run.run_name) ?? {},
      found = this.run.named.filter(({ key, decides }) => decides && key in wanted);
    this.moveSignals(Object.fromEntries(found.map(({ key, name }) => [name, wanted[key]])));
  }

  // Requests the moved thresholds; returns the data of the server's event, or null if none were moved. A page without a
  // run requests them too: a run may be waiting for the model.
  request() {
    if (!this.moved || !this.hasAll) return null;
    [this.requested, this.moved] = [this.moved, null];
    this.ticket += 1;
    const { requested, run, ticket } = this,
      has_run = Boolean(run?.times.length);
    if (!has_run && run) run.thresholds = { ...run.thresholds, ...requested };
    if (!has_run || areEqual(requested, run.thresholds)) this.requested = null; // there is nothing to wait for
    this.show();
    return { ...requested, ticket, has_run };
  }

  // Shows a run, or null for none: it may answer the request. Returns whether the shown thresholds have changed.
  settle(run) {
    const before = this.shown,
      { requested, ticket } = this;
    if (!this.hasAll && run?.run !== this.run.run) this.moved = null;
    this.run = run;
    const isAnswer = run?.answers === ticket || (requested && run && areEqual(requested, run.thresholds));
    if (!run || run.run_name || isAnswer) this.requested = null;
    if (run && !this.movedSignals.has(run)) this.moveToSweep();
    this.show();
    return !areEqual(before, this.shown);
  }

  show() {
    const { moved, requested, run } = this,
      values = ofProbabilities(moved ?? requested ?? run?.thresholds ?? this.latest);
    this.latest = { ...this.latest, ...values };
    this.shown = { ...(run && { ...run.thresholds, ...this.movedSignals.get(run) }), ...values };
  }
}

const MOST_LETTERS = 24; // of the title of a signal

function movedSignals(player, data) {
  return visibleSignals(data).filter(
    ({ name }) =>
      (DECISIONS.includes(name) ? player.shown.isPreview : name in player.shown.thresholds) &&
      player.shown.thresholds[name] !== data.thresholds[name],
  );
}

// The run with its thresholds that were moved, such as "run at speak 0.50"; "" if none was.
export function runWords(player, data) {
  const moved = data.times.length ? movedSignals(player, data) : [];
  const words = moved.map(({ name, title, policy }) => {
    const short = title.length > MOST_LETTERS ? `${title.slice(0, MOST_LETTERS)}…` : title,
      threshold = data.thresholds[name];
    return threshold === undefined
      ? `an unknown threshold of ${short}`
      : `${short} ${thresholdWords(policy, threshold)}`;
  });
  return words.length ? `run at ${words.join(", ")}` : "";
}

// Whether a signal decides at a frame: in the preview if there is one, else in the run.
export function hasDecided(player, data, name, frame) {
  const { hits, alarms } = player.shown.counts[name] ?? {},
    isPreviewed = player.shown.isPreview && hits !== undefined;
  const lists = isPreviewed ? [hits, alarms] : [data.decided[name]];
  return lists.some((frames) => countUpTo(frames, frame) > countUpTo(frames, frame - 1));
}
