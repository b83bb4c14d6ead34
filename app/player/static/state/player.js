// One player on the page: the run that it shows, what is selected and played, and the parts that draw it. Functions of
// other modules get it as their first argument; two players share nothing but the storage of the browser.

import { Outbox } from "./outbox.js";
import { STOP_SIGNS } from "./data.js";
import { Thresholds } from "./thresholds.js";

export const pagePlayer = Promise.withResolvers(); // of the page, once it is mounted

export class Player {
  // `host` is the page around the player, under Gradio's names for the script of a component: element, trigger, props,
  // server, watch. Its `settings` never change: whether the page `can_run` the model (exact runs, prompts and tokens),
  // and more. The callbacks, which get the player first, are for modules below those that do the work:
  // `tick()` draws an animation frame, `layout()` the timeline, `drawReview()` and `drawCurves()` their panels;
  // `moveThreshold(name, value)` moves one; `dragTurn(grip, event)` follows the pointer.
  constructor({ element, trigger, props, server, watch, settings }, callbacks) {
    Object.assign(this, { element, trigger, props, server, watch, settings });
    for (const [name, work] of Object.entries(callbacks)) this[name] = (...values) => work(this, ...values);

    // elements and the objects that draw them, which `createPlayer` makes
    this.root = this.canvas = this.map = this.head = this.tip = null;
    this.timeline = this.signals = this.video = this.transcript = this.receiver = null;
    this.listeners = new AbortController(); // of all listeners outside the element: Gradio has no unmount hook

    // the run
    this.data = null; // unpacked
    this.judgedRun = null; // the last run of this video that was judged
    this.kept = null; // the selected event, while its video streams again: until that ends, there are no events
    this.latest = 0; // time of the latest frame of a live session, in seconds
    this.thresholds = new Thresholds(settings.thresholds);
    this.thresholdTimer = 0;
    this.shown = new Shown(this.thresholds);
    this.countsCache = {}; // by signal

    // the selection
    this.stopIndex = null; // index of the stop that is shown, in `data.stops`
    this.approach = null; // to a moment of a story: its times and its selection
    this.isAfterVerdict = false; // whether a verdict selected the event, so that N has not stopped at it
    this.selectedTime = null; // of an explicit selection, in seconds; null while the selection follows the playhead
    this.kinds = new Set(Object.keys(STOP_SIGNS)); // at which N and P stop
    this.isReviewing = false; // whether keys give verdicts and correct; else they only navigate
    this.isDetailed = false; // whether ids, signs and probabilities are shown
    this.isUnfolded = false; // whether the failures of a mistake are
    this.isRootsOnly = false; // whether they stop at roots alone, where the run has a diagnosis
    this.explained = null; // the run and its failure whose reason is drawn
    this.kindsBefore = null; // the kinds that were chosen before one of them alone

    // drawing
    this.tab = "rows";
    this.lastFrame = this.lastTime = -1; // the last ones drawn, -1 to draw them again
    this.sleeping = 0; // the timer of the paused loop
    this.pendingPaint = 0; // the request of an animation frame
    this.shownFrame = -1; // the frame that the panel shows
    this.isReasoningOpen = false; // in the panel
    this.isPointerDown = this.isMouseActive = false; // a button is down; the last input was the pointer's, not a key's
    this.isStatusOfJudgement = false; // whether the status line is about failures or events
    this.exporting = ""; // the status line while a file is written
    this.curves = { data: null, curves: {}, panel: null, plot: null, requestDrawing: null };
    this.inspection = { asked: null, found: null };
    this.whatIf = { root: null, nodes: [], run: null, draft: "" }; // the branches of a run; new changes
    this.isTaskChanged = false; // whether the page's task differs from that of the run
    this.isInUse = false; // whether there was a key or a click
    this.tour = null; // the parts of its popover, its stops, their number and the focus before; null while it is closed
    // whether responses are spoken, the time up to which they were, and the audio element
    this.speech = { isOn: false, passed: null, sound: null, waiting: [] };
    this.address = new Address();
    // the head of the page: the runs by name, and its open menu
    this.crumbs = { box: null, runs: new Map(), open: null, picked: "", bare: "" };
    this.outbox = new Outbox();
    this.review = newReview();
  }

  find(name) {
    return this.element.querySelector(`.ss-${name}`);
  }

  // Listens until the player is gone; the target is one of its elements by name, or any other target.
  listen(target, event, handler, options = {}) {
    const found = typeof target === "string" ? this.find(target) : target;
    found.addEventListener(event, handler, { ...options, signal: this.listeners.signal });
  }

  whenGone(work) {
    this.listeners.signal.addEventListener("abort", work);
  }

  focus() {
    this.canvas.focus({ preventScroll: true });
  }

  // Takes the focus after a click on a control; a control that was reached with Tab keeps it.
  returnFocus(control) {
    if (control === document.activeElement && this.canvas.offsetParent) this.focus();
  }

  // Whether the run is of a different model, or of a result file, which the page's model cannot continue.
  get isForeignRun() {
    const digest = this.settings.model_digest;
    return Boolean(digest && this.data?.times.length) && this.data.model !== digest;
  }

  get reviewer() {
    return this.review.signedIn ?? this.review.name;
  }

  // The layer of corrections over the reference; null without one.
  get layer() {
    return this.review.state?.layer ?? null;
  }
}

// What painters show of a run.
class Shown {
  constructor(values) {
    Object.assign(this, { values, counts: {}, region: null, isLooping: false });
    // the number of the selected root, the evidence for its decision, and the series of it that the lane shows
    Object.assign(this, { root: null, decision: null, evidence: "log-odds" });
  }

  get thresholds() {
    return this.values.shown;
  }

  get isPreview() {
    return this.values.isPreview;
  }
}

// What the page's address still has to do.
class Address {
  constructor() {
    this.linkAtStart = Object.fromEntries(new URLSearchParams(location.search));
    this.linkedEvent = this.linkAtStart.event ?? null; // null once it is shown
    this.wantsScoring = this.linkAtStart.score === "corrected"; // until it is
    this.nothing = null; // a video without a run: its name, split and address
    this.chosen = null; // that address, also once it has a run
    this.isStep = false; // whether the next address is a step of the browser's history
    this.lastWriteMs = 0;
    this.awaited = null; // the page's tab and view that the server opens, until they are drawn
    this.awaitedRun = null; // the run that Batch shows after Back, until it does
    this.runOfBack = null; // the run with which Back enters Batch
    this.isAnswered = false; // whether the server's first value was received
    this.isOpen = false; // whether it was a run, or a video without one
    this.wholeRun = null; // the run in the address that was shown last, not streaming: Back returns to it
    this.isCompareShown = false; // whether a second run was shown
    this.isLeaving = false; // whether Back reloads the page: an address written now would drop those of Forward
    this.restored = null; // the place to which Back leads, and what is shown until then
  }
}

function newReview() {
  return {
    // the reviews of the video
    state: null,
    events: [],
    units: new Map(),
    splits: new Map(),
    mine: new Map(),
    finals: new Map(), // by the key of a settled event: its verdict and who settled it
    turns: new Map(),
    current: null,
    scope: "all",
    wantsCorrected: false,
    spanBegan: null, // time at which the key of a span was pressed, in seconds; null while it is not held
    markedSpan: null, // of the turn whose text is being typed, if a key has marked one
    // the reviewer
    name: "",
    isBlind: false,
    signedIn: null,
    // by the id of an action that waits for its reply: the event and the time of the video at which it was submitted
    origins: new Map(),
    drafts: new Map(),
    unnamed: [], // typed text, and actions with what follows them, that wait for a reviewer's name
    // the state of sending
    isAsking: false,
    isAgain: false,
    askedAt: -Infinity,
    saved: "",
    problem: "",
    refusals: new Map(),
    timer: 0,
    undoTimer: 0, // until which a deletion offers to be taken back
  };
}
