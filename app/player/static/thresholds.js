// Thresholds: every move is a preview in the browser; letting go asks the server for the exact run. The latest move wins.
// At rest nothing is moved or wanted, and the run that is shown sets the lines and the sliders.

import { recount } from "./chart.js";
import { DECISIONS } from "./data.js";
import { node } from "./dom.js";
import { follow, offset } from "./drag.js";
import { host, listeners, shown, state, ui } from "./state.js";

const PAUSE_MS = 700, TYPING_MS = 300;
let ticket = 0, idle = 0;

const isThreshold = (value) => Number.isFinite(value) && value >= 0 && value <= 1;
const areEqual = (one, other) => DECISIONS.every((name) => one[name] === other[name]);

// Takes new values of one threshold or of both, of a slider or of a line. A box that is empty moves nothing.
export function moveThresholds(values) {
  const latest = { ...shown.thresholds, ...values };
  const isMove = DECISIONS.every((name) => isThreshold(latest[name]));
  if (isMove && state.data && areEqual(latest, shown.thresholds)) return;
  clearTimeout(idle);
  state.moved = isMove ? latest : null;
  showThresholds();
  if (state.data) recount();
  if (state.moved && !state.isHeld) idle = setTimeout(letGo, PAUSE_MS);
}

// Asks for the exact run. A page without a run tells the server as well: a run may wait for the model.
export function letGo() {
  clearTimeout(idle);
  if (!state.moved) return;
  [state.wanted, state.moved] = [state.moved, null];
  ticket += 1;
  const hasRun = Boolean(state.data?.times.length);
  host.trigger("thresholds", { ...state.wanted, ticket, has_run: hasRun });
  if (!hasRun && state.data) state.data.thresholds = state.wanted;
  if (!hasRun || areEqual(state.wanted, state.data.thresholds)) state.wanted = null; // there is nothing to wait for
  showThresholds();
  if (state.data) recount();
}

// Shows what is moved or wanted, else what the run has.
function showThresholds() {
  shown.thresholds = { ...(state.moved ?? state.wanted ?? state.data?.thresholds ?? shown.thresholds) };
  shown.isPreview = Boolean(state.data) && !areEqual(shown.thresholds, state.data.thresholds);
}

// A run has come, or none is shown any more: what it settles is wanted no longer, and the sliders follow it.
export function settleThresholds() {
  const before = shown.thresholds;
  if (!state.data || state.data.run_name || state.data.answers === ticket || state.wanted && areEqual(state.wanted, state.data.thresholds)) state.wanted = null;
  showThresholds();
  if (!areEqual(before, shown.thresholds)) host.trigger("shown");
}

const hundredths = (value) => Math.round(value * 100) / 100; // what a hand can set; a threshold itself may have more digits

export function holdThreshold(name, row, event) {
  state.isHeld = true;
  const began = offset(ui.canvas, event)[1];
  let isMoved = false;
  const move = (later) => {
    const y = offset(ui.canvas, later)[1];
    isMoved ||= Math.abs(y - began) >= 2; // a press alone keeps all digits
    if (!isMoved) return;
    moveThresholds({ [name]: hundredths(ui.lanes.traceProb(row, y)) });
    host.trigger("shown");
  };
  follow(ui.canvas, event, move, () => {});
}

// The boxes of all thresholds of the page: what is no number from 0 to 1 is refused in a sentence and taken back.
const BOXES = ".threshold input[type=number]";
const beforeTyping = new WeakMap(); // box -> its threshold before what is typed, until that is checked
let isRefused = false, typing = 0;

const isAccepted = (box) => box.value !== "" && isThreshold(Number(box.value));

function onBox(name, handle) {
  document.addEventListener(name, (event) => {
    if (event.target.matches?.(BOXES)) handle(event.target, event);
  }, { signal: listeners.signal, capture: true }); // before the box itself, which reads nothing as 0
}

const read = (box) => box.dispatchEvent(new InputEvent("input", { bubbles: true }));

function checkBox(box) {
  const frame = box.closest(".threshold"), kept = beforeTyping.get(box);
  clearTimeout(typing);
  if (!beforeTyping.delete(box)) return; // nothing was typed
  if (isAccepted(box)) return read(box);
  const name = frame.querySelector("label").textContent.trim().toLowerCase();
  const got = box.validity.badInput ? "something else" : box.value === "" ? "nothing" : box.value;
  box.value = kept;
  read(box);
  const problem = frame.querySelector(".threshold-problem") ?? frame.appendChild(node("p", "threshold-problem"));
  problem.setAttribute("role", "alert");
  problem.textContent = `The ${name} must be a number from 0 to 1; got ${got}. It stays ${kept}.`;
  isRefused = true;
}

export function mountThresholds() {
  ui.root.thresholds = () => DECISIONS.map((name) => shown.thresholds[name]);

  // What is typed counts after a digit and a pause: the box sets its text to the number that it has read so far, "0." to "0".
  onBox("input", (box, event) => {
    if (!event.isTrusted) return;
    event.stopImmediatePropagation();
    clearTimeout(typing);
    if (isAccepted(box) && /\d$/.test(event.data)) typing = setTimeout(read, TYPING_MS, box);
  });
  onBox("beforeinput", (box, event) => {
    if (!beforeTyping.has(box)) beforeTyping.set(box, isAccepted(box) ? box.value : "0.5");
    if (!event.data?.includes(",")) return;
    event.preventDefault();
    document.execCommand("insertText", false, event.data.replaceAll(",", "."));
  });
  onBox("keydown", (box) => box.closest(".threshold").querySelector(".threshold-problem")?.remove());
  onBox("change", checkBox);
  onBox("blur", checkBox);
  document.addEventListener("pointerdown", () => { isRefused = false; }, { signal: listeners.signal, capture: true });
  document.addEventListener("click", (event) => { // a press on Run or Start that refuses a box does nothing else
    if (!isRefused || !event.target.closest?.("button")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, { signal: listeners.signal, capture: true });

  // Sliders have the step "any", since a step would round the threshold that they show. A drag sets hundredths, and so do the
  // arrows of a box.
  document.addEventListener("input", (event) => {
    const slider = event.target;
    if (state.isByMouse && slider.matches?.(".threshold input[type=range]")) slider.value = hundredths(Number(slider.value));
  }, { signal: listeners.signal, capture: true });
  for (const name of ["pointerover", "focus"]) onBox(name, (box) => { box.step = "0.01"; });
  listeners.signal.addEventListener("abort", () => clearTimeout(idle));
}
