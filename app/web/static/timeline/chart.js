// The lanes and the overview below them: layout, counts, painting, zoom.

import { GUTTER, MARGIN } from "./axis.js";
import { resizeCanvas } from "./canvas.js";
import { drawCurves } from "../panels/curves.js";
import { countText, EventCounts } from "../state/data.js";
import { runWords } from "../state/preview.js";
import { countedNames } from "../state/signals.js";
import { find } from "../dom/dom.js";
import { layerTurns } from "../review/layer.js";
import { movePlayhead, redrawPlayhead } from "../playback/playhead.js";
import { host, kinds, shown, state, thresholds, ui } from "../state/state.js";
import { canFail, LOW_SIMILARITY } from "../playback/stops.js";

const countsCache = {};
let pendingPaint = 0;

export function layout() {
  if (!state.data) return;
  state.data.layer = layerTurns();
  state.data.isReviewing = state.tab === "review" && state.data.events.length > 0;
  state.data.hasLayer =
    state.data.layer.length > 0 && (state.tab === "review" || state.data.layer.some((turn) => turn.look !== "same"));
  const height = ui.timeline.arrange(state.data); // also in a hidden tab: the rows must fit this video
  ui.canvas.setAttribute("aria-valuemax", state.data.duration_s.toFixed(1));
  if (!ui.canvas.parentElement.clientWidth) return updateCounts();
  ui.timeline.resize(ui.canvas.parentElement.clientWidth, height);
  refreshCounts();
}

// Whether the task's inputs differ from the task of the run. The inputs belong to the page's first player.
function isTaskChanged() {
  if (host.settings.hint) return false;
  return Object.entries(state.data.task).some(
    ([name, text]) => (document.querySelector(`#${name} textarea`)?.value ?? text) !== text,
  );
}

export function refreshCounts() {
  updateCounts();
  paint();
  redrawPlayhead();
}

export function updateCounts() {
  shown.counts = Object.fromEntries(countedNames(state.data).map((name) => [name, countsFor(name).extend()]));
  const run = runWords(state.data);
  ui.root.classList.toggle("ss-is-preview", run !== "");
  find("kinds").dataset.run = run;
  find("counts").textContent = [
    previewText(run),
    isTaskChanged() ? "Goal, steps or user turns have changed since this run: press Run." : "",
  ]
    .filter(Boolean)
    .join(" ");
  if (state.tab === "curves") drawCurves(find("curves"), state.data);
}

// The counts that are shown, extended while a run streams.
function countsFor(name) {
  const threshold = shown.thresholds[name],
    known = countsCache[name],
    isSame = known?.data === state.data && known.threshold === threshold;
  return (countsCache[name] =
    isSame && known.isPreview === shown.isPreview
      ? known
      : new EventCounts(state.data, name, threshold, shown.isPreview));
}

export function paint() {
  if (!ui.canvas.parentElement.clientWidth) return; // it is painted when the tab opens
  ui.timeline.paint(shown);
  ui.signals.paint(ui.timeline, shown);
  paintOverview();
  movePlayhead();
}

const OVERVIEW_HEIGHT = 18;

function paintOverview() {
  const { begin_s, duration_s } = state.data;
  const width = ui.timeline.width,
    height = OVERVIEW_HEIGHT,
    pen = resizeCanvas(ui.map, width, height);
  pen.clearRect(0, 0, width, height);
  const at = (time) => GUTTER + ((time - begin_s) / (duration_s - begin_s)) * (width - GUTTER - MARGIN);
  pen.fillStyle = ui.timeline.colours.faint;
  pen.fillRect(GUTTER, 7, width - GUTTER - MARGIN, 4);
  pen.font = ui.timeline.font;
  pen.textBaseline = "middle";
  pen.fillStyle = ui.timeline.colours.ink;
  pen.fillText(canFail(state.data) ? countText(state.data.failures.length, "failure") : "", 4, 9);
  for (const failure of state.data.stops) {
    pen.fillStyle = !kinds.has(failure.kind)
      ? ui.timeline.colours.grid
      : ui.timeline.colours[failure.kind === LOW_SIMILARITY ? "matched" : "mismatched"];
    pen.fillRect(at(failure.time) - 1, 2, 2, 14);
  }
  pen.strokeStyle = ui.timeline.colours.ink;
  pen.strokeRect(
    at(ui.timeline.view.start),
    0.5,
    Math.max(3, at(ui.timeline.view.end) - at(ui.timeline.view.start)),
    height - 1,
  );
}

export function setView(start, end) {
  const { begin_s, duration_s, fps } = state.data;
  const length = Math.min(duration_s - begin_s, Math.max(2 / fps, end - start));
  const from = Math.min(duration_s - length, Math.max(begin_s, start));
  ui.timeline.view = { start: from, end: from + length };
  requestPaint();
}

export function requestPaint() {
  pendingPaint ||= requestAnimationFrame(() => {
    pendingPaint = 0;
    if (state.data) paint();
  });
}

export function zoom(factor, around = ui.video.time) {
  const { start, end } = ui.timeline.view;
  const middle = Math.min(end, Math.max(start, around));
  setView(middle - (middle - start) * factor, middle + (end - middle) * factor);
}

export function reveal(time) {
  const { start, end } = ui.timeline.view;
  if (time < start || time > end) setView(time - (end - start) / 2, time + (end - start) / 2);
}

function previewText(run) {
  if (!shown.isPreview && !run) return "";
  const isMoving = thresholds.moved !== null && state.isPointerDown;
  const next = !shown.isPreview
    ? ""
    : !host.settings.can_run
      ? "An exact run needs the program."
      : isMoving
        ? "Release to run it exactly."
        : "The exact run is under way.";
  return `Preview from the trace${run ? `: failures, texts and states stay those of the ${run}` : ""}. ${next}`.trim();
}
