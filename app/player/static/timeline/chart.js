// The lanes and the overview below them: layout, counts, painting, zoom.

import { GUTTER, MARGIN } from "../canvas/axis.js";
import { resizeCanvas } from "../canvas/canvas.js";
import { findOpenSteps } from "../lanes/steps.js";
import { countText, EventCounts, frameAt, LOW_SIMILARITY } from "../state/data.js";
import { runWords } from "../state/thresholds.js";
import { countedNames } from "../state/signals.js";
import { layerTurns } from "../state/layer.js";
import { movePlayhead, redrawPlayhead } from "../clock/playhead.js";
import { canFail } from "../state/stops.js";

export function layout(player) {
  if (!player.data) return;
  const { data, canvas } = player,
    layer = layerTurns(player),
    isReview = player.tab === "review";
  data.layer = layer;
  for (const run of [data, data.other]) if (run) run.isBlind = player.review.isBlind; // hides the chains
  data.isReviewing = isReview && data.events.length > 0;
  data.hasLayer = layer.length > 0 && (isReview || layer.some((turn) => turn.look !== "same"));
  player.timeline.openSteps = findOpenSteps(data, frameAt(data, player.video.time));
  const height = player.timeline.arrange(data), // also in a hidden tab: the rows must fit this video
    width = canvas.parentElement.clientWidth;
  canvas.ariaValueMax = data.duration_s.toFixed(1);
  if (!width) return updateCounts(player);
  player.timeline.resize(width, height);
  refreshCounts(player);
}

// Whether the task's inputs differ from the task of the run. The inputs belong to the page's first player.
function isTaskChanged(player) {
  if (player.settings.hint) return false;
  const typed = (name) => document.querySelector(`#${name} textarea`)?.value;
  return Object.entries(player.data.task).some(([name, text]) => (typed(name) ?? text) !== text);
}

// Opens the rows of the steps at the playhead.
export function followSteps(player, frame) {
  const { isDetailed, openSteps } = player.timeline;
  if (!isDetailed && findOpenSteps(player.data, frame).join() !== openSteps.join()) layout(player);
}

export function refreshCounts(player) {
  updateCounts(player);
  paint(player);
  redrawPlayhead(player);
}

// Compares the task's inputs again, which Gradio changes without an event of the page.
export function followTask(player) {
  if (player.data && isTaskChanged(player) !== player.isTaskChanged) updateCounts(player);
}

export function updateCounts(player) {
  const names = countedNames(player.data);
  player.shown.counts = Object.fromEntries(names.map((name) => [name, countsFor(player, name).extend()]));
  player.isTaskChanged = isTaskChanged(player);
  const changed = player.isTaskChanged && "Goal, steps or user turns have changed since this run: press Run.";
  player.find("counts").textContent = [previewText(player), changed].filter(Boolean).join(" ");
  if (player.tab === "curves") player.drawCurves();
}

// The counts that are shown, extended while a run streams.
function countsFor(player, name) {
  const { data, countsCache, shown } = player,
    threshold = shown.thresholds[name],
    known = countsCache[name],
    isPreview = shown.isPreview && threshold !== undefined,
    isSame = known?.data === data && known.threshold === threshold && known.isPreview === isPreview;
  if (!isSame) countsCache[name] = new EventCounts(data, name, threshold, isPreview);
  return countsCache[name];
}

export function paint(player) {
  if (!player.canvas.parentElement.clientWidth) return; // it is painted when the tab opens
  player.timeline.paint(player.shown);
  player.signals.paint(player.timeline, player.shown);
  paintOverview(player);
  movePlayhead(player);
}

const OVERVIEW_HEIGHT = 18;

function paintOverview(player) {
  const { timeline, data, map } = player,
    { colours, width, view } = timeline,
    inner = width - GUTTER - MARGIN,
    pen = resizeCanvas(map, width, OVERVIEW_HEIGHT),
    at = (time) => GUTTER + ((time - data.begin_s) / (data.duration_s - data.begin_s)) * inner;
  pen.clearRect(0, 0, width, OVERVIEW_HEIGHT);
  pen.fillStyle = colours.faint;
  pen.fillRect(GUTTER, 7, inner, 4);
  pen.font = timeline.font;
  pen.textBaseline = "middle";
  pen.fillStyle = colours.ink;
  if (canFail(data))
    pen.fillText(`${countText(data.mistakes.length, "mistake")}, ${countText(data.failures.length, "failure")}`, 4, 9);
  for (const { kind, time } of data.stops) {
    const colour = kind === LOW_SIMILARITY ? "low" : "mismatched";
    pen.fillStyle = colours[player.kinds.has(kind) ? colour : "grid"];
    pen.fillRect(at(time) - 1, 2, 2, 14);
  }
  pen.strokeStyle = colours.ink;
  pen.strokeRect(at(view.start), 0.5, Math.max(3, at(view.end) - at(view.start)), OVERVIEW_HEIGHT - 1);
}

export function setView(player, start, end) {
  const { begin_s, duration_s, fps } = player.data;
  const length = Math.min(duration_s - begin_s, Math.max(2 / fps, end - start));
  const from = Math.min(duration_s - length, Math.max(begin_s, start));
  player.timeline.view = { start: from, end: from + length };
  requestPaint(player);
}

export function requestPaint(player) {
  player.pendingPaint ||= requestAnimationFrame(() => {
    player.pendingPaint = 0;
    if (player.data) paint(player);
  });
}

export function zoom(player, factor, around = player.video.time) {
  const { start, end } = player.timeline.view;
  const middle = Math.min(end, Math.max(start, around));
  setView(player, middle - (middle - start) * factor, middle + (end - middle) * factor);
}

export function reveal(player, time) {
  const { start, end } = player.timeline.view;
  if (time < start || time > end) setView(player, time - (end - start) / 2, time + (end - start) / 2);
}

// The one place of the page that says what is a preview, and of which run the rest is.
function previewText(player) {
  const run = runWords(player, player.data),
    { isPreview } = player.shown;
  if (!isPreview && !run) return "";
  const isMoving = player.thresholds.moved !== null && player.isPointerDown,
    exact = isMoving ? "Release to run it exactly." : "The exact run is under way.",
    next = player.settings.can_run ? exact : "An exact run needs the program.",
    words = run ? `: failures, texts and states stay those of the ${run}` : "";
  return `Preview from the trace${words}. ${isPreview ? next : ""}`.trim();
}
