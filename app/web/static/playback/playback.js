// The animation loop that follows the video's clock.

import { updateAddress } from "../address.js";
import { GUTTER, MARGIN } from "../timeline/axis.js";
import { setView } from "../timeline/chart.js";
import { clockText, frameAt, gridFrame } from "../state/data.js";
import { find } from "../dom/dom.js";
import { drawNowPanel } from "../panels/now_panel.js";
import { currentEvent } from "../review/opinions.js";
import { drawOnlyKind } from "./failure_stops.js";
import { seek } from "./playhead.js";
import { clearSelection, followEvent } from "./selection.js";
import { followSpeech } from "./speech.js";
import { host, listeners, shown, state, ui } from "../state/state.js";

const SLEEP_MS = 250;

// Runs once per animation frame during playback, otherwise a few times a second to save power.
export function tick() {
  state.sleeping = 0;
  if (!host.element.isConnected) return listeners.abort();
  ui.video.refresh();
  updateAddress();
  if (ui.video.isPaused) state.sleeping = setTimeout(tick, SLEEP_MS);
  else requestAnimationFrame(tick);
  updatePlayhead();
  followSpeech();
}

// Moves the playhead; updates texts only when the model's frame changes. A command runs it first: what it acts on is
// then what lies at the playhead, even right after a seek.
export function updatePlayhead() {
  if (!state.data || !ui.canvas.clientWidth) return;
  let time = ui.video.time;
  if (shown.isLooping && shown.region && (time >= shown.region[1] || time < shown.region[0] - 0.3))
    seek((time = shown.region[0]));
  if (time === state.lastTime) return;
  state.lastTime = time;
  scrollView(time);
  const x = ui.timeline.x(time);
  ui.head.style.transform = `translateX(${x}px)`;
  ui.head.style.visibility = x < GUTTER - 1 || x > ui.timeline.width - MARGIN + 1 ? "hidden" : "visible";
  ui.head.dataset.time = time;
  find("clock").textContent = clockText(time);
  find("play").textContent = ui.video.isPaused ? "▶" : "❚❚";
  if (state.selectedTime !== null && Math.abs(state.selectedTime - time) >= 0.5 / state.data.fps) clearSelection();
  const frame = gridFrame(state.data, time);
  if (frame === state.lastFrame) return;
  state.lastFrame = state.shownFrame = frame;
  const failure = state.stopIndex === null ? null : state.data.stops[state.stopIndex];
  drawOnlyKind(failure);
  drawNowPanel(find("now"), state.data, frameAt(state.data, time), time, failure);
  if (state.data.events.length) followEvent(time);
  ui.transcript.follow(time, currentEvent() ?? failure, state.selectedTime !== null);
  ui.canvas.setAttribute("aria-valuenow", time.toFixed(1));
  ui.canvas.setAttribute("aria-valuetext", `${clockText(time)} of ${clockText(state.data.duration_s)}`);
}

function scrollView(time) {
  const { start, end } = ui.timeline.view;
  if (ui.video.isPaused || (time >= start && time <= end)) return;
  setView(time - (end - start) * 0.1, time + (end - start) * 0.9);
}
