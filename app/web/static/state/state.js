// The shared mutable state of the player. Imports only constants, so that every module can import it.

import { KINDS } from "./data.js";
import { Thresholds } from "./thresholds.js";

// The page around the player, under Gradio's names for the script of a component: element, trigger, props, server,
// watch. `settings` of the component never change: whether the page `can_run` the model (exact runs, prompts and
// tokens), and more.
export const host = {};

// The elements and the objects that draw them, and functions for modules that cannot import them; set by `mount`.
export const ui = {
  root: null,
  canvas: null,
  map: null,
  head: null,
  tip: null,
  timeline: null,
  signals: null,
  video: null,
  transcript: null,
  receiver: null,
  tick: null,
  drawReview: null,
  moveThreshold: null,
};

export const state = {
  data: null, // the run that is shown, unpacked
  tab: "rows",
  stopIndex: null, // index of the stop that is shown, in `data.stops`
  isAfterVerdict: false, // whether a verdict selected the event, so that N has not stopped at it
  selectedTime: null, // time of an explicit selection, in seconds; null while the selection follows the playhead
  lastFrame: -1,
  lastTime: -1,
  sleeping: 0, // last frame and time drawn, -1 to draw them again, and the timer of the paused loop
  shownFrame: -1, // the frame that the panel shows
  latest: 0, // time of the latest frame of a live session, in seconds
  isPointerDown: false,
  isMouseActive: false, // a button is down; the last input came from the pointer, not the keyboard
  lowSimilarity: 0.8, // a lower similarity is low; "boat" for "tower" has 0.55 to 0.61, a paraphrase 0.87 to 0.90
  isStatusOfJudgement: false, // whether the status line is about failures or events
};

export const thresholds = new Thresholds();

// What painters show of the run.
export const shown = {
  get thresholds() {
    return thresholds.shown;
  },
  get isPreview() {
    return thresholds.isPreview;
  },
  counts: {},
  region: null,
  isLooping: false,
};
export const kinds = new Set(Object.keys(KINDS)); // of the failures at which N and P stop
// Gradio has no unmount hook: one signal for all listeners outside the element
export const listeners = new AbortController();

export const review = {
  state: null,
  events: [],
  units: new Map(),
  splits: new Map(),
  mine: new Map(),
  turns: new Map(),
  current: null,
  scope: "all",
  wantsCorrected: false, // the reviews of the video
  name: "",
  isBlind: false,
  signedIn: null, // the reviewer
  // by the id of an action that waits for its reply: the event and the time of the video at which it was submitted
  origins: new Map(),
  drafts: new Map(),
  unnamed: [], // typed text, and actions with what follows them, that wait for a reviewer's name
  isAsking: false,
  isAgain: false,
  saved: "",
  problem: "",
  refusals: new Map(),
  timer: 0, // the state of sending
};

export function reviewer() {
  return review.signedIn ?? review.name;
}
export function layer() {
  return review.state?.layer ?? null;
}
