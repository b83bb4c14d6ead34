// The lanes and the overview below them: layout, counts, painting, zoom.

import { GUTTER, MARGIN } from "./axis.js";
import { resizeCanvas } from "./canvas.js";
import { drawCurves } from "../panels/curves.js";
import { countText, EventCounts } from "../state/data.js";
import { runWords } from "../state/preview.js";
import { countedNames } from "../state/signals.js";
import { layerTurns } from "../review/layer.js";
import { movePlayhead, redrawPlayhead } from "../playback/playhead.js";
import { canFail, LOW_SIMILARITY } from "../playback/stops.js";

export function layout(player) {
  if (!player.data) return;
  player.data.layer = layerTurns(player);
  player.data.isReviewing = player.tab === "review" && player.data.events.length > 0;
  player.data.hasLayer =
    player.data.layer.length > 0 && (player.tab === "review" || player.data.layer.some((turn) => turn.look !== "same"));
  const height = player.timeline.arrange(player.data); // also in a hidden tab: the rows must fit this video
  player.canvas.setAttribute("aria-valuemax", player.data.duration_s.toFixed(1));
  if (!player.canvas.parentElement.clientWidth) return updateCounts(player);
  player.timeline.resize(player.canvas.parentElement.clientWidth, height);
  refreshCounts(player);
}

// Whether the task's inputs differ from the task of the run. The inputs belong to the page's first player.
function isTaskChanged(player) {
  if (player.settings.hint) return false;
  return Object.entries(player.data.task).some(
    ([name, text]) => (document.querySelector(`#${name} textarea`)?.value ?? text) !== text,
  );
}

export function refreshCounts(player) {
  updateCounts(player);
  paint(player);
  redrawPlayhead(player);
}

export function updateCounts(player) {
  player.shown.counts = Object.fromEntries(
    countedNames(player.data).map((name) => [name, countsFor(player, name).extend()]),
  );
  player.find("counts").textContent = [
    previewText(player),
    isTaskChanged(player) ? "Goal, steps or user turns have changed since this run: press Run." : "",
  ]
    .filter(Boolean)
    .join(" ");
  if (player.tab === "curves") drawCurves(player, player.find("curves"), player.data);
}

// The counts that are shown, extended while a run streams.
function countsFor(player, name) {
  const threshold = player.shown.thresholds[name],
    known = player.countsCache[name],
    isSame = known?.data === player.data && known.threshold === threshold;
  return (player.countsCache[name] =
    isSame && known.isPreview === player.shown.isPreview
      ? known
      : new EventCounts(player.data, name, threshold, player.shown.isPreview));
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
  const { begin_s, duration_s } = player.data;
  const width = player.timeline.width,
    height = OVERVIEW_HEIGHT,
    pen = resizeCanvas(player.map, width, height);
  pen.clearRect(0, 0, width, height);
  const at = (time) => GUTTER + ((time - begin_s) / (duration_s - begin_s)) * (width - GUTTER - MARGIN);
  pen.fillStyle = player.timeline.colours.faint;
  pen.fillRect(GUTTER, 7, width - GUTTER - MARGIN, 4);
  pen.font = player.timeline.font;
  pen.textBaseline = "middle";
  pen.fillStyle = player.timeline.colours.ink;
  pen.fillText(canFail(player.data) ? countText(player.data.failures.length, "failure") : "", 4, 9);
  for (const failure of player.data.stops) {
    pen.fillStyle = !player.kinds.has(failure.kind)
      ? player.timeline.colours.grid
      : player.timeline.colours[failure.kind === LOW_SIMILARITY ? "matched" : "mismatched"];
    pen.fillRect(at(failure.time) - 1, 2, 2, 14);
  }
  pen.strokeStyle = player.timeline.colours.ink;
  pen.strokeRect(
    at(player.timeline.view.start),
    0.5,
    Math.max(3, at(player.timeline.view.end) - at(player.timeline.view.start)),
    height - 1,
  );
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
  const run = runWords(player, player.data);
  if (!player.shown.isPreview && !run) return "";
  const isMoving = player.thresholds.moved !== null && player.isPointerDown;
  const next = !player.shown.isPreview
    ? ""
    : !player.settings.can_run
      ? "An exact run needs the program."
      : isMoving
        ? "Release to run it exactly."
        : "The exact run is under way.";
  return `Preview from the trace${run ? `: failures, texts and states stay those of the ${run}` : ""}. ${next}`.trim();
}
