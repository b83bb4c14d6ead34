// Shows a run, the increments of a streaming run, or no run.

import { openLinkedMoment, takeLinkedEvent } from "./address.js";
import { layout, requestPaint, reveal, updateCounts } from "./timeline/chart.js";
import { clockText } from "./state/data.js";
import { find, focusedInput } from "./dom/dom.js";
import { drawKinds, drawOnlyKind, drawSimilarityInput } from "./playback/failure_stops.js";
import { closeInspection } from "./panels/inspection.js";
import { requestScoring } from "./review/layer.js";
import { AVAILABLE_SCOPES, currentEvent, eventByKey, mergeOpinions, resetReview } from "./review/opinions.js";
import { drawProvenance } from "./panels/provenance.js";
import { goToEvent, stopIndexOf } from "./playback/selection.js";
import { layer, review, shown, state, ui } from "./state/state.js";
import { setStatus } from "./dom/status.js";
import { canFail, collectStops } from "./playback/stops.js";
import { sendWaiting } from "./review/sync.js";
import { openTab } from "./panels/tabs.js";
import { settleThresholds } from "./playback/thresholds.js";

// Shows another run, or the first part of a streaming run; null for none.
export function showRun(next) {
  const isSame = state.data !== null && next?.video_id === state.data.video_id;
  if (!isSame || ![...next.events, ...(layer()?.turns ?? [])].some(({ key }) => key === review.current)) focusedInput()?.blur();
  ui.video.refresh();
  if (next?.run !== state.data?.run || !isSame) closeInspection();
  if (next?.run !== state.data?.run || state.isStatusOfJudgement) setStatus(""); // it was about another run or judgement
  state.data = next;
  ui.root.classList.toggle("ss-has-run", Boolean(state.data));
  find("empty").textContent = state.data ? "" : "Press Run: responses, updates and step states appear here, in time with the video.";
  settleThresholds();
  if (!state.data) return clearRun();
  state.data.stops = collectStops(state.data);
  for (const name of ["previousFailure", "nextFailure"]) find("bar").querySelector(`[data-do=${name}]`).disabled = !canFail(state.data);
  if (!isSame) {
    ui.timeline.view = { start: 0, end: state.data.duration_s };
    shown.region = null;
    shown.isLooping = false;
    state.stopIndex = null;
    resetReview();
  }
  if (!AVAILABLE_SCOPES[review.scope]()) review.scope = find("scope").value = "all";
  ui.video.caption(state.data, ui.video.captions);
  ui.transcript.draw(state.data);
  drawKinds();
  drawProvenance();
  layout();
  if (review.wantsCorrected && !state.data.is_corrected && state.data.is_finished && !state.data.isReferenceAlone) requestScoring(); // the run is new, not the layer
  find("against").checked = review.wantsCorrected;
  mergeOpinions();
  if (state.data.events.length) sendWaiting();
  if (state.data.open_at !== null) { ui.video.arriveAt(state.data.open_at); reveal(state.data.open_at); }
  else if (!isSame) openLinkedMoment();
  if (!currentEvent()) state.selectedTime = null;
  state.stopIndex = state.selectedTime === null ? null : stopIndexOf(currentEvent());
  const opened = eventByKey(state.data.open_event), linked = eventByKey(takeLinkedEvent());
  if (opened) { openTab("review"); goToEvent(opened); } else if (linked) goToEvent(linked);
}

// Shows an increment of a streaming run; paints at most once per animation frame.
export function showIncrement(added) {
  ui.transcript.insert(added.map(({ place }) => place));
  ui.video.appendCaptions(state.data, added.map(({ row }) => row.turn).filter((turn) => turn.role === "assistant"));
  ui.canvas.setAttribute("aria-valuemax", state.data.duration_s.toFixed(1));
  updateCounts();
  requestPaint();
}

function clearRun() {
  state.stopIndex = null;
  resetReview();
  ui.drawReview();
  setStatus("");
  find("clock").textContent = clockText(0);
  ui.head.style.visibility = "hidden";
  for (const name of ["now", "rows", "curves", "kinds", "counts", "origins"]) find(name).replaceChildren();
  drawSimilarityInput();
  drawOnlyKind(null);
  ui.timeline.clear();
  ui.map.getContext("2d").clearRect(0, 0, ui.map.width, ui.map.height);
}
