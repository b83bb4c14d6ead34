// The number inputs and sliders of all thresholds of the page: an invalid value is refused with a message and reset.

import { createNode } from "../dom/dom.js";
import { isThreshold } from "../state/thresholds.js";

const TYPING_MS = 300;
const THRESHOLD_INPUTS = ".threshold input[type=number]";

// The precision of a drag; a threshold itself may have more digits.
export const hundredths = (value) => Math.round(value * 100) / 100;

const isValid = (box) => box.value !== "" && isThreshold(Number(box.value));
const dispatchInput = (box) => box.dispatchEvent(new InputEvent("input", { bubbles: true }));

export function mountThresholdInputs(player) {
  const valueBeforeTyping = new WeakMap(); // input -> its last valid value, until the typed one is checked
  let isRefused = false,
    typing = 0;

  function onThresholdInput(name, handle) {
    document.addEventListener(
      name,
      (event) => {
        if (event.target.matches?.(THRESHOLD_INPUTS)) handle(event.target, event);
      },
      { signal: player.listeners.signal, capture: true },
    ); // before Gradio's own listener, which reads "" as 0
  }

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
    const problem =
      frame.querySelector(".threshold-problem") ?? frame.appendChild(createNode("p", "threshold-problem"));
    problem.setAttribute("role", "alert");
    problem.textContent = `The ${name} must be a number from 0 to 1; got ${got}. It stays ${kept}.`;
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
  document.addEventListener(
    "pointerdown",
    () => {
      isRefused = false;
    },
    { signal: player.listeners.signal, capture: true },
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
    { signal: player.listeners.signal, capture: true },
  );

  // Sliders have the step "any", because a step would round the threshold that they show. A drag sets hundredths, and
  // so do the arrows of a number input.
  document.addEventListener(
    "input",
    (event) => {
      const slider = event.target;
      if (player.isMouseActive && slider.matches?.(".threshold input[type=range]"))
        slider.value = hundredths(Number(slider.value));
    },
    { signal: player.listeners.signal, capture: true },
  );
  for (const name of ["pointerover", "focus"])
    onThresholdInput(name, (box) => {
      box.step = "0.01";
    });
}
