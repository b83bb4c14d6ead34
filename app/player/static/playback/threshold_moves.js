// Moves of thresholds: every move is a preview in the browser; a release requests the exact run. The latest move wins.
// A typed value that is no threshold is refused with a message, and reset.

import { refreshCounts } from "../timeline/chart.js";
import { createNode, pointerOffset, trackDrag } from "../dom/dom.js";
import { hasTheta } from "../state/policy.js";
import { signalOf } from "../state/signals.js";
import { isThreshold } from "../state/thresholds.js";

const IDLE_MS = 700;

// Sets one threshold or both, from a slider or a line. An empty input moves nothing.
export function moveThresholds(player, values) {
  if (!player.thresholds.move(values)) return;
  clearTimeout(player.thresholdTimer);
  if (player.data) refreshCounts(player);
  if (player.thresholds.moved && !player.isPointerDown)
    player.thresholdTimer = setTimeout(() => requestExactRun(player), IDLE_MS);
}

// Applies thresholds of the sweep: those of probabilities move, those of named signals are previewed.
export function applyThresholds(player, { used, ...values }) {
  if (Object.keys(values).length) moveThresholds(player, values);
  if (used && player.thresholds.applySweep(used)) refreshCounts(player);
}

// Requests the exact run. Without a model the thresholds stay moved.
export function requestExactRun(player) {
  clearTimeout(player.thresholdTimer);
  const requested = player.settings.can_run ? player.thresholds.request() : null;
  if (!requested) return;
  player.trigger("thresholds", requested);
  if (player.data) refreshCounts(player);
}

// Shows the sliders of the rule of the run, or of the page's model before the first run; the style sheet has the rest.
// A run of a different model does not read them; a run without known thresholds has none.
function showSliders(player) {
  if (player.settings.hint) return;
  const isTheta = player.data ? hasTheta(player.data.policy) : player.settings.has_theta;
  document.documentElement.toggleAttribute("data-theta", isTheta);
  for (const slider of document.querySelectorAll("#speak_threshold, #update_threshold, #theta")) {
    slider.inert = player.isForeignRun;
    slider.hidden = !player.thresholds.hasAll;
  }
}

// Settles a request after a run arrived or was cleared; the sliders follow the run.
export function settleThresholds(player) {
  const isChanged = player.thresholds.settle(player.data);
  showSliders(player);
  if (isChanged) player.trigger("shown");
}

// The value of a drag: hundredths of the range.
function rounded(player, name, value) {
  const { low, high } = player.data ? signalOf(player.data, name) : { low: 0, high: 1 },
    step = 10 ** (Math.ceil(Math.log10(high - low)) - 2);
  return step === 0.01 ? hundredths(value) : Number((Math.round(value / step) * step).toPrecision(12));
}

// Drags a threshold's handle; `valueAt(y)` is the threshold at a height of the timeline.
export function dragThreshold(player, name, valueAt, event) {
  player.isPointerDown = true;
  const began = pointerOffset(player.canvas, event)[1];
  let isMoved = false;
  const move = (later) => {
    const y = pointerOffset(player.canvas, later)[1];
    isMoved ||= Math.abs(y - began) >= 2; // a click without a drag keeps all digits
    if (!isMoved) return;
    moveThresholds(player, { [name]: rounded(player, name, valueAt(y)) });
    player.trigger("shown");
  };
  trackDrag(event.currentTarget, event, move);
}

export function mountThresholds(player) {
  showSliders(player);
  mountThresholdInputs(player);
  player.whenGone(() => clearTimeout(player.thresholdTimer));
}

const TYPING_MS = 300;
const THRESHOLD_INPUTS = ".threshold input[type=number]";

// The precision of a drag; a threshold itself may have more digits.
const hundredths = (value) => Math.round(value * 100) / 100;

const isValid = (box) => box.value !== "" && isThreshold(Number(box.value));
const dispatchInput = (box) => box.dispatchEvent(new InputEvent("input", { bubbles: true }));

function mountThresholdInputs(player) {
  const valueBeforeTyping = new WeakMap(); // input -> its last valid value, until the typed one is checked
  let isRefused = false,
    typing = 0;

  // before Gradio's own listener, which reads "" as 0
  const listenFirst = (name, handle) => player.listen(document, name, handle, { capture: true });
  const onThresholdInput = (name, handle) =>
    listenFirst(name, (event) => event.target.matches?.(THRESHOLD_INPUTS) && handle(event.target, event));

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
    const words = `The ${name} must be a number from 0 to 1; got ${got}. It stays ${kept}.`;
    frame.querySelector(".threshold-problem")?.remove();
    frame.append(createNode("p", "threshold-problem", words, { role: "alert" }));
    isRefused = true;
  }

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
  listenFirst("pointerdown", () => {
    isRefused = false;
  });
  listenFirst("click", (event) => {
    // a click on Run or Start that refuses an input does nothing else
    // it was read, and may no longer hold
    if (!isRefused) for (const problem of document.querySelectorAll(".threshold-problem")) problem.remove();
    if (!isRefused || !event.target.closest?.("button")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  });

  // Sliders have the step "any", because a step would round the threshold that they show. A drag sets hundredths, and
  // so do the arrows of a number input.
  listenFirst("input", ({ target: slider }) => {
    if (player.isMouseActive && slider.matches?.(".threshold input[type=range]"))
      slider.value = hundredths(Number(slider.value));
  });
  for (const name of ["pointerover", "focus"])
    onThresholdInput(name, (box) => {
      box.step = "0.01";
    });
}
