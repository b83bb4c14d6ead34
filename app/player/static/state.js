// What the page shows and what its parts share. The other modules import it; it imports only constants.

import { KINDS } from "./data.js";

// What Gradio gives the script of a component: element, trigger, props, server, watch.
export const host = {};

// The elements of the page and the objects that draw them, made by `mount`; and two functions that lower modules call.
export const ui = {
  root: null, canvas: null, map: null, head: null, tip: null, lanes: null, video: null, transcript: null, receiver: null,
  tick: null, drawReview: null,
};

export const state = {
  data: null, // the run that is shown, unpacked
  tab: "rows",
  cursor: null, // the number of the stop that is shown, in `data.stops`
  held: null, // where the playhead was put for the selection, in seconds; null when it follows the playhead
  lastFrame: -1, lastTime: -1, sleeping: 0, // what the playhead was drawn for, and the timer until it is looked at again
  moved: null, // thresholds {speak, update} under the hand, not asked for yet
  wanted: null, // asked for, not run yet
  isHeld: false, isByMouse: false, // a button of the mouse is down; the mouse was used last, not the keyboard
  lowSimilarity: 0.8, // a lower one is low; a boat for a tower has 0.55 to 0.61, a paraphrase 0.87 to 0.90
  isSaidOfJudgement: false, // whether the message line speaks of failures or events
};

export const shown = { thresholds: { speak: 0.5, update: 0.5 }, counts: {}, isPreview: false, region: null, isLooping: false };
export const kinds = new Set(Object.keys(KINDS)); // of the failures at which N and P stop
export const listeners = new AbortController(); // there is no unmount hook: one switch for all that is not ours

export const review = {
  state: null, events: [], units: new Map(), splits: new Map(), mine: new Map(), turns: new Map(), current: null, wanted: null, scope: "all", wantsCorrected: false, // what is said, and of what
  name: "", isBlind: false, signedIn: null, // who says it
  drafts: new Map(), // what was typed and not given, for want of a name
  isAsking: false, isAgain: false, saved: "", problem: "", refusals: new Map(), timer: 0, // what became of it
};

export function reviewer() { return review.signedIn ?? review.name; }
export function layer() { return review.state?.layer ?? null; }
