// Sliders of both thresholds, or of theta where the rule of the run has it. The player checks the typed numbers, as on
// the page of the program.

import { createNode } from "../player/dom/dom.js";
import { convertTheta, hasTheta } from "../player/state/policy.js";
import { DECISIONS } from "../player/state/signals.js";

const inputs = {};

function preview(values) {
  document.dispatchEvent(new CustomEvent("stepscope:threshold", { detail: values }));
  showThresholds();
}

// Shows the thresholds of the player.
export function showThresholds() {
  const [speak, update] = document.querySelector("#player .ss").thresholds();
  for (const [name, value] of Object.entries({ speak, update, theta: convertTheta(speak) })) {
    for (const input of inputs[name] ?? []) if (Number(input.value) !== value) input.value = value;
  }
}

export function drawThresholds(packed) {
  const box = createNode("div", "thresholds"),
    reset = createNode("button", "", "reset");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Preview of other thresholds");
  for (const name of hasTheta(packed.policy) ? ["theta"] : DECISIONS)
    box.append(drawThreshold(name, packed.thresholds));
  reset.type = "button";
  reset.title = "Back to the thresholds of the run";
  reset.addEventListener("click", () => preview(packed.thresholds));
  box.append(reset);
  return box;
}

function drawThreshold(name, thresholds) {
  const isTheta = name === "theta",
    value = isTheta ? convertTheta(thresholds.speak) : thresholds[name],
    title = isTheta ? name : `${name} threshold`;
  const frame = createNode("div", "threshold"),
    label = createNode("label", "", title),
    number = createNode("input"),
    slider = createNode("input");
  if (isTheta) frame.title = "The assistant stays silent while the probability of its silent token reaches theta.";
  Object.assign(number, { type: "number", min: 0, max: 1, step: "any", id: `${name}_number`, value });
  Object.assign(slider, { type: "range", min: 0, max: 1, step: "any", value });
  slider.setAttribute("aria-label", `${title}, slider`);
  label.htmlFor = number.id;
  inputs[name] = [number, slider];
  const send = (at) => preview(isTheta ? { speak: convertTheta(at) } : { [name]: at });
  for (const input of inputs[name]) input.addEventListener("input", () => send(Number(input.value)));
  frame.append(label, slider, number);
  return frame;
}
