// Moves of thresholds: every move is a preview in the browser; a release requests the exact run. The latest move wins.

import { refreshCounts } from "../timeline/chart.js";
import { pointerOffset, trackDrag } from "../dom/drag.js";
import { hasTheta } from "../state/policy.js";
import { DECISIONS, signalOf } from "../state/signals.js";
import { host, listeners, state, thresholds, ui } from "../state/state.js";
import { hundredths, mountThresholdInputs } from "./threshold_inputs.js";

const IDLE_MS = 700;
let idle = 0;

// Sets one threshold or both, from a slider or a line. An empty input moves nothing.
export function moveThresholds(values) {
  if (!thresholds.move(values)) return;
  clearTimeout(idle);
  if (state.data) refreshCounts();
  if (thresholds.moved && !state.isPointerDown) idle = setTimeout(requestExactRun, IDLE_MS);
}

// Applies thresholds of the sweep: those of probabilities move, those of named signals are previewed.
export function applyThresholds({ used, ...values }) {
  if (Object.keys(values).length) moveThresholds(values);
  if (used && thresholds.applySweep(used)) refreshCounts();
}

// Requests the exact run. Without a model the thresholds stay moved.
export function requestExactRun() {
  clearTimeout(idle);
  const requested = host.settings.can_run ? thresholds.request() : null;
  if (!requested) return;
  host.trigger("thresholds", requested);
  if (state.data) refreshCounts();
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
  const isChanged = thresholds.settle(state.data);
  showSliders();
  if (isChanged) host.trigger("shown");
}

// The value of a drag: hundredths of the range.
function rounded(name, value) {
  const { low, high } = state.data ? signalOf(state.data, name) : { low: 0, high: 1 },
    step = 10 ** (Math.ceil(Math.log10(high - low)) - 2);
  return step === 0.01 ? hundredths(value) : Number((Math.round(value / step) * step).toPrecision(12));
}

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

export function mountThresholds() {
  showSliders();
  ui.root.thresholds = () => DECISIONS.map((name) => thresholds.shown[name]);
  mountThresholdInputs();
  listeners.signal.addEventListener("abort", () => clearTimeout(idle));
}
