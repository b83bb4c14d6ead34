// Moves of thresholds: every move is a preview in the browser; a release requests the exact run. The latest move wins.

import { refreshCounts } from "../timeline/chart.js";
import { pointerOffset, trackDrag } from "../dom/drag.js";
import { hasTheta } from "../state/policy.js";
import { DECISIONS, signalOf } from "../state/signals.js";
import { hundredths, mountThresholdInputs } from "./threshold_inputs.js";

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
function showSliders(player) {
  if (!player.settings.hint)
    document.documentElement.toggleAttribute(
      "data-theta",
      player.data ? hasTheta(player.data.policy) : player.settings.has_theta,
    );
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
  trackDrag(event.currentTarget, event, move, () => {});
}

export function mountThresholds(player) {
  showSliders(player);
  player.root.thresholds = () => DECISIONS.map((name) => player.thresholds.shown[name]);
  mountThresholdInputs(player);
  player.listeners.signal.addEventListener("abort", () => clearTimeout(player.thresholdTimer));
}
