// The lanes and the map below them: layout, counts, painting, zoom.

import { GUTTER, MARGIN } from "./axis.js";
import { fitCanvas } from "./canvas.js";
import { drawCurves } from "./curves.js";
import { DECISIONS, EventCounts } from "./data.js";
import { find } from "./dom.js";
import { layerTurns } from "./layer.js";
import { drawAgain } from "./playhead.js";
import { kinds, shown, state, ui } from "./state.js";
import { canFail, LOW } from "./stops.js";

const counting = {};
let pending = 0;

export function layOut() {
  if (!state.data) return;
  state.data.layer = layerTurns();
  state.data.isReviewing = state.tab === "review" && state.data.events.length > 0;
  state.data.hasLayer = state.data.layer.length > 0 && (state.tab === "review" || state.data.layer.some((turn) => turn.look !== "same"));
  const height = ui.lanes.arrange(state.data); // while the tab is hidden, too: lanes of another video must not be drawn with this one
  ui.canvas.setAttribute("aria-valuemax", state.data.duration_s.toFixed(1));
  if (!ui.canvas.parentElement.clientWidth) return count();
  ui.lanes.resize(ui.canvas.parentElement.clientWidth, height);
  recount();
}

// Whether the boxes of the task have other texts than the run, no matter how they came there.
function isTaskChanged() {
  return Object.entries(state.data.task).some(([name, text]) => (document.querySelector(`#${name} textarea`)?.value ?? text) !== text);
}

export function recount() {
  count();
  repaint();
}

export function count() {
  for (const name of DECISIONS) shown.counts[name] = countsOf(name).extend();
  find("counts").textContent = [
    previewWords(),
    isTaskChanged() ? "Goal, steps or user turns have changed since this run: press Run." : "",
  ].filter(Boolean).join(" ");
  if (state.tab === "curves") drawCurves(find("curves"), state.data, shown);
}

// The counts that are shown, which grow with a run that streams.
function countsOf(name) {
  const threshold = shown.thresholds[name], known = counting[name], isSame = known?.data === state.data && known.threshold === threshold;
  return counting[name] = isSame && known.isPreview === shown.isPreview ? known : new EventCounts(state.data, name, threshold, shown.isPreview);
}

export function repaint() {
  if (!ui.canvas.parentElement.clientWidth) return; // it is drawn once the tab is shown
  ui.lanes.paint(state.data, shown);
  paintMap();
  drawAgain();
}

const MAP_HEIGHT = 18;

function paintMap() {
  const width = ui.lanes.width, height = MAP_HEIGHT, pen = fitCanvas(ui.map, width, height);
  pen.clearRect(0, 0, width, height);
  const at = (time) => GUTTER + time / state.data.duration_s * (width - GUTTER - MARGIN);
  pen.fillStyle = ui.lanes.colours.faint;
  pen.fillRect(GUTTER, 7, width - GUTTER - MARGIN, 4);
  pen.font = ui.lanes.font;
  pen.textBaseline = "middle";
  pen.fillStyle = ui.lanes.colours.ink;
  pen.fillText(canFail(state.data) ? `${state.data.failures.length} failure${state.data.failures.length === 1 ? "" : "s"}` : "", 4, 9);
  for (const failure of state.data.stops) {
    pen.fillStyle = !kinds.has(failure.kind) ? ui.lanes.colours.grid : ui.lanes.colours[failure.kind === LOW ? "matched" : "mismatched"];
    pen.fillRect(at(failure.time) - 1, 2, 2, 14);
  }
  pen.strokeStyle = ui.lanes.colours.ink;
  pen.strokeRect(at(ui.lanes.view.start), 0.5, Math.max(3, at(ui.lanes.view.end) - at(ui.lanes.view.start)), height - 1);
}

export function show(start, end) {
  const length = Math.min(state.data.duration_s, Math.max(2 / state.data.fps, end - start));
  const from = Math.min(state.data.duration_s - length, Math.max(0, start));
  ui.lanes.view = { start: from, end: from + length };
  askPaint();
}

export function askPaint() {
  pending ||= requestAnimationFrame(() => { pending = 0; if (state.data) repaint(); });
}

export function zoom(factor, around = ui.video.time) {
  const { start, end } = ui.lanes.view;
  const middle = Math.min(end, Math.max(start, around));
  show(middle - (middle - start) * factor, middle + (end - middle) * factor);
}

export function reveal(time) {
  const { start, end } = ui.lanes.view;
  if (time < start || time > end) show(time - (end - start) / 2, time + (end - start) / 2);
}

function previewWords() {
  if (!shown.isPreview) return "";
  const next = state.moved ? "Let go to run it exactly." : "The exact run is under way.";
  return `Preview from the trace: another decision would change what follows. ${next}`;
}
