// Thresholds: every move is a preview in the browser; a release requests the exact run. The latest move wins.
// At rest nothing is moved or requested, and the run that is shown sets the lines and the sliders.

import { refreshCounts } from "../timeline/chart.js";
import { createNode } from "../dom/dom.js";
import { pointerOffset, trackDrag } from "../dom/drag.js";
import { hasTheta } from "../state/policy.js";
import { DECISIONS, setLevels, signalOf } from "../state/signals.js";
import { host, listeners, shown, state, ui } from "../state/state.js";

const IDLE_MS = 700,
  TYPING_MS = 300;
let ticket = 0,
  idle = 0;

const isThreshold = (value) => Number.isFinite(value) && value >= 0 && value <= 1;
const areEqual = (one, other) => DECISIONS.every((name) => one[name] === other[name]);
// name of a run -> the thresholds of its named signals that the sweep set, by their own names
const usedSignals = new Map();
const movedSignals = new WeakMap(); // run -> the moved thresholds of its named signals: previews, without an exact run

// Sets one threshold or both, from a slider or a line. An empty input moves nothing.
export function moveThresholds(values) {
  const [moved] = Object.keys(values);
  if (state.data?.named.some(({ name }) => name === moved)) return moveSignal(values);
  const latest = { ...shown.thresholds, ...values };
  const isMove = DECISIONS.every((name) => isThreshold(latest[name]));
  if (isMove && state.data && areEqual(latest, shown.thresholds)) return;
  clearTimeout(idle);
  state.movedThresholds = isMove ? latest : null;
  showThresholds();
  if (state.data) refreshCounts();
  if (state.movedThresholds && !state.isPointerDown) idle = setTimeout(requestExactRun, IDLE_MS);
}

// Applies thresholds of the sweep: those of probabilities move; those of named signals are previewed in each video of
// their run.
export function applyThresholds({ used, ...values }) {
  if (Object.keys(values).length) moveThresholds(values);
  if (!used) return;
  usedSignals.set(used.run, used.signals);
  if (state.data?.run_name !== used.run) return;
  previewUsed();
  showThresholds();
  refreshCounts();
}

// Moves the named signals of the shown run to the thresholds of the sweep, if it set any.
function previewUsed() {
  const used = usedSignals.get(state.data?.run_name) ?? {};
  const found = (state.data?.named ?? []).filter(({ key, decides }) => decides && key in used);
  moveLevels(Object.fromEntries(found.map(({ key, name }) => [name, used[key]])));
}

// Previews another threshold of a named signal.
function moveSignal(values) {
  moveLevels(values);
  showThresholds();
  refreshCounts();
}

function moveLevels(values) {
  if (!state.data) return;
  movedSignals.set(state.data, { ...movedSignals.get(state.data), ...values });
  for (const [name, value] of Object.entries(values)) setLevels(state.data, name, value);
}

// Requests the exact run. A page without a run requests it too: a run may be waiting for the model. Without a model the
// thresholds stay moved.
export function requestExactRun() {
  clearTimeout(idle);
  if (!state.movedThresholds || !host.settings.can_run) return;
  [state.requestedThresholds, state.movedThresholds] = [state.movedThresholds, null];
  ticket += 1;
  const hasRun = Boolean(state.data?.times.length);
  host.trigger("thresholds", { ...state.requestedThresholds, ticket, has_run: hasRun });
  if (!hasRun && state.data) state.data.thresholds = state.requestedThresholds;
  // nothing to wait for
  if (!hasRun || areEqual(state.requestedThresholds, state.data.thresholds)) state.requestedThresholds = null;
  showThresholds();
  if (state.data) refreshCounts();
}

// Shows the moved or requested thresholds, or those of the run.
function showThresholds() {
  const ofSignals = state.data && { ...state.data.thresholds, ...movedSignals.get(state.data) };
  const ofHeads = state.movedThresholds ?? state.requestedThresholds ?? state.data?.thresholds ?? shown.thresholds;
  shown.thresholds = { ...ofSignals, speak: ofHeads.speak, update: ofHeads.update };
  shown.isPreview = Boolean(state.data) && !areEqual(shown.thresholds, state.data.thresholds);
  showSliders();
}

// Shows the sliders of the rule of the run, or of the page's model before the first run; the style sheet has the rest.
function showSliders() {
  if (!host.settings.hint)
    document.documentElement.toggleAttribute(
      "data-theta",
      state.data ? hasTheta(state.data.policy) : host.settings.has_theta,
    );
}

// Settles a request after a run arrived or was cleared; the sliders follow the run.
export function settleThresholds() {
  const before = shown.thresholds;
  if (
    !state.data ||
    state.data.run_name ||
    state.data.answers === ticket ||
    (state.requestedThresholds && areEqual(state.requestedThresholds, state.data.thresholds))
  )
    state.requestedThresholds = null;
  if (state.data && !movedSignals.has(state.data)) previewUsed();
  showThresholds();
  if (!areEqual(before, shown.thresholds)) host.trigger("shown");
}

// The value of a drag: hundredths of the range.
function rounded(name, value) {
  const { low, high } = state.data ? signalOf(state.data, name) : { low: 0, high: 1 },
    step = 10 ** (Math.ceil(Math.log10(high - low)) - 2);
  return step === 0.01 ? hundredths(value) : Number((Math.round(value / step) * step).toPrecision(12));
}

// the precision of a drag; a threshold itself may have more digits
const hundredths = (value) => Math.round(value * 100) / 100;

// Drags a threshold's handle; `valueAt(y)` is the threshold at a height of the timeline.
export function dragThreshold(name, valueAt, event) {
  state.isPointerDown = true;
  const began = pointerOffset(ui.canvas, event)[1];
  let isMoved = false;
  const move = (later) => {
    const y = pointerOffset(ui.canvas, later)[1];
    isMoved ||= Math.abs(y - began) >= 2; // a click without a drag keeps all digits
    if (!isMoved) return;
    moveThresholds({ [name]: rounded(name, valueAt(y)) });
    host.trigger("shown");
  };
  trackDrag(event.currentTarget, event, move, () => {});
}

// The number inputs of all thresholds of the page: an invalid value is refused with a message and reset.
const THRESHOLD_INPUTS = ".threshold input[type=number]";
const valueBeforeTyping = new WeakMap(); // input -> its last valid value, until the typed one is checked
let isRefused = false,
  typing = 0;

const isValid = (box) => box.value !== "" && isThreshold(Number(box.value));

function onThresholdInput(name, handle) {
  document.addEventListener(
    name,
    (event) => {
      if (event.target.matches?.(THRESHOLD_INPUTS)) handle(event.target, event);
    },
    { signal: listeners.signal, capture: true },
  ); // before Gradio's own listener, which reads "" as 0
}

const dispatchInput = (box) => box.dispatchEvent(new InputEvent("input", { bubbles: true }));

function validateInput(box) {
  const frame = box.closest(".threshold"),
    kept = valueBeforeTyping.get(box);
  clearTimeout(typing);
  if (!valueBeforeTyping.delete(box)) return; // nothing was typed
  if (isValid(box)) return dispatchInput(box);
  const name = frame.querySelector("label").textContent.trim().toLowerCase();
  const got = box.validity.badInput ? "something else" : box.value === "" ? "nothing" : box.value;
  box.value = kept;
  dispatchInput(box);
  const problem = frame.querySelector(".threshold-problem") ?? frame.appendChild(createNode("p", "threshold-problem"));
  problem.setAttribute("role", "alert");
  problem.textContent = `The ${name} must be a number from 0 to 1; got ${got}. It stays ${kept}.`;
  isRefused = true;
}

export function mountThresholds() {
  showSliders();
  ui.root.thresholds = () => DECISIONS.map((name) => shown.thresholds[name]);

  // Typed text counts after a digit and a pause: Gradio rewrites the text to the number read so far, "0." to "0".
  onThresholdInput("input", (box, event) => {
    if (!event.isTrusted) return;
    event.stopImmediatePropagation();
    clearTimeout(typing);
    if (isValid(box) && /\d$/.test(event.data)) typing = setTimeout(dispatchInput, TYPING_MS, box);
  });
  onThresholdInput("beforeinput", (box, event) => {
    if (!valueBeforeTyping.has(box)) valueBeforeTyping.set(box, isValid(box) ? box.value : "0.5");
    if (!event.data?.includes(",")) return;
    event.preventDefault();
    document.execCommand("insertText", false, event.data.replaceAll(",", "."));
  });
  onThresholdInput("keydown", (box) => box.closest(".threshold").querySelector(".threshold-problem")?.remove());
  onThresholdInput("change", validateInput);
  onThresholdInput("blur", validateInput);
  document.addEventListener(
    "pointerdown",
    () => {
      isRefused = false;
    },
    { signal: listeners.signal, capture: true },
  );
  document.addEventListener(
    "click",
    (event) => {
      // a click on Run or Start that refuses an input does nothing else
      // it was read, and may no longer hold
      if (!isRefused) for (const problem of document.querySelectorAll(".threshold-problem")) problem.remove();
      if (!isRefused || !event.target.closest?.("button")) return;
      event.preventDefault();
      event.stopImmediatePropagation();
    },
    { signal: listeners.signal, capture: true },
  );

  // Sliders have the step "any", because a step would round the threshold that they show. A drag sets hundredths, and
  // so do the arrows of a number input.
  document.addEventListener(
    "input",
    (event) => {
      const slider = event.target;
      if (state.isMouseActive && slider.matches?.(".threshold input[type=range]"))
        slider.value = hundredths(Number(slider.value));
    },
    { signal: listeners.signal, capture: true },
  );
  for (const name of ["pointerover", "focus"])
    onThresholdInput(name, (box) => {
      box.step = "0.01";
    });
  listeners.signal.addEventListener("abort", () => clearTimeout(idle));
}
