// Shows a run, the increments of a streaming run, or no run.

import { isLinkAtStart, openLinkedMoment, takeLinkedEvent, takeLinkedScoring } from "./address.js";
import { layout, requestPaint, reveal, setView, updateCounts } from "./timeline/chart.js";
import { clockText } from "./state/data.js";
import { find, focusedInput } from "./dom/dom.js";
import { drawKinds, drawOnlyKind, drawSimilarityInput } from "./playback/failure_stops.js";
import { showChanges } from "./panels/failure_changes.js";
import { closeInspection, isForeignRun } from "./panels/inspection.js";
import { requestScoring } from "./review/layer.js";
import { AVAILABLE_SCOPES, currentEvent, eventByKey, mergeOpinions, resetReview } from "./review/opinions.js";
import { drawProvenance } from "./panels/provenance.js";
import { goToEvent, goToFailure, goToLinked, stopIndexOf } from "./playback/selection.js";
import { host, layer, review, shown, state, ui } from "./state/state.js";
import { setStatus } from "./dom/status.js";
import { redrawPlayhead } from "./playback/playhead.js";
import { canFail, collectStops, openingText } from "./playback/stops.js";
import { sendWaiting } from "./review/sync.js";
import { openTab } from "./panels/tabs.js";
import { offerTour } from "./panels/tour.js";
import { settleThresholds } from "./playback/threshold_moves.js";

let kept = null; // the selected event, while its video streams again: until that ends, there are no events

// Shows another run, or the first part of a streaming run; null for none.
export function showRun(next) {
  const isSame = state.data !== null && next?.video_id === state.data.video_id;
  if (state.data !== null && !isSame) review.saved = ""; // of the video before
  if (!isSame) kept = null;
  else if (state.selectedTime !== null && currentEvent()) kept = { key: review.current, time: state.selectedTime };
  if (!isSame || ![...next.events, ...(layer()?.turns ?? [])].some(({ key }) => key === review.current))
    focusedInput()?.blur();
  ui.video.refresh();
  if (next?.run !== state.data?.run || !isSame) closeInspection();
  // it was about another run or judgement
  if (next?.run !== state.data?.run || state.isStatusOfJudgement) setStatus("");
  state.data = next;
  ui.root.classList.toggle("ss-has-run", Boolean(state.data));
  find("empty").textContent = state.data
    ? ""
    : (host.settings.hint ?? "Press Run: responses, updates and step states appear here, in time with the video.");
  settleThresholds();
  showChanges(next);
  markForeignRun();
  drawAnswer();
  if (!state.data) return clearRun();
  state.data.stops = collectStops(state.data);
  for (const name of ["previousFailure", "nextFailure"])
    find("bar").querySelector(`[data-do=${name}]`).disabled = !canFail(state.data);
  if (!isSame) {
    ui.timeline.view = { start: 0, end: state.data.duration_s };
    shown.region = null;
    shown.isLooping = false;
    state.stopIndex = null;
    resetReview();
    review.wantsCorrected = host.settings.can_review && takeLinkedScoring();
    if (state.data.is_live) ui.video.time = state.latest = 0;
  }
  if (!AVAILABLE_SCOPES[review.scope]()) review.scope = find("scope").value = "all";
  ui.video.end = state.data.duration_s;
  ui.video.caption(state.data, ui.video.captions);
  ui.transcript.draw(state.data);
  drawKinds();
  drawProvenance();
  layout();
  if (review.wantsCorrected && !state.data.is_corrected && state.data.is_finished && !state.data.isReferenceAlone)
    requestScoring(); // the run is new, not the layer
  find("against").checked = review.wantsCorrected;
  mergeOpinions();
  if (state.data.events.length) sendWaiting();
  if (state.data.open_at !== null) {
    window.scrollTo(0, 0); // the table that opened it may have been scrolled
    ui.video.arriveAt(state.data.open_at);
    reveal(state.data.open_at);
  } else if (!isSame) openLinkedMoment();
  const isKept = state.data.events.length > 0 && selectKept();
  if (!currentEvent()) state.selectedTime = null;
  state.stopIndex = state.selectedTime === null ? null : stopIndexOf(currentEvent());
  const opened = eventByKey(state.data.open_event),
    linked = takeLinkedEvent();
  if (opened && state.data.opens_review) openTab("review");
  if (opened) goToEvent(opened);
  else if (linked) goToLinked(linked);
  else if (isKept && state.stopIndex !== null && !find("said").textContent) setStatus(openingText(state.stopIndex));
  else if (state.data.events.length && state.data.is_opening) goToFirstFailure();
  if (!(opened ?? linked) || state.data.opens_review || state.stopIndex === null) return;
  setStatus(openingText(state.stopIndex), true);
  if (opened && !isLinkAtStart()) offerTour();
}

// Marks the page while it shows a run of a different model, which the page's model cannot continue; the style sheet has
// the rest.
function markForeignRun() {
  if (host.settings.model_digest) document.documentElement.toggleAttribute("data-foreign-run", isForeignRun());
}

// Goes to the first failure of a run that has ended, unless the user has left the start of the video.
function goToFirstFailure() {
  if (
    state.selectedTime !== null ||
    !ui.video.isPaused ||
    ui.video.time > 0.05 ||
    find("said").textContent ||
    !canFail(state.data)
  )
    return;
  if (state.data.stops.length) goToFailure(0);
  setStatus(state.data.stops.length ? openingText(0) : "No failures. Space: play · ?: all keys", true);
}

// Whether the playhead is still at the event that was selected before the video streamed again.
function isAtKept() {
  return kept !== null && Math.abs(ui.video.time - kept.time) < 0.5 / state.data.fps;
}

// Selects the event again that was selected before the video streamed again, if it is there.
function selectKept() {
  const found = isAtKept() && eventByKey(kept.key);
  if (found) [review.current, state.selectedTime] = [kept.key, kept.time];
  kept = null;
  return Boolean(found);
}

// Shows an increment of a streaming run; paints at most once per animation frame.
export function showIncrement(added) {
  ui.transcript.insert(added.map(({ place }) => place));
  ui.video.appendCaptions(
    state.data,
    added.map(({ row }) => row.turn).filter((turn) => turn?.role === "assistant"),
  );
  ui.canvas.setAttribute("aria-valuemax", state.data.duration_s.toFixed(1));
  if (
    added.some(({ row }) => row.role === "user") ||
    ui.timeline.rows.some(({ kind }) => kind === "state") !== state.data.assistant_states.length > 0
  )
    layout(); // the first question or state adds a lane
  if (state.data.is_live) followLatest();
  drawAnswer();
  updateCounts();
  redrawPlayhead();
  requestPaint();
}

// Shows the response that is being generated, token by token.
function drawAnswer() {
  const answer = state.data?.progress;
  find("answer").textContent =
    answer && !state.data.is_live ? `Answering at ${clockText(answer.time)}: ${answer.text}` : "";
}

const LIVE_VIEW_S = 120; // the longest view that grows with a live session; a later one scrolls

// Moves the playhead and the view of a live session to the latest frame, unless the user went back.
function followLatest() {
  const { start, end } = ui.timeline.view,
    latest = state.data.times.at(-1),
    before = state.latest ?? 0;
  if (latest === undefined) return; // the first frame is still answered
  state.latest = latest;
  ui.video.end = state.data.duration_s;
  if (latest > end && before <= end) setView(latest - Math.min(LIVE_VIEW_S, Math.max(end - start, latest)), latest);
  if (ui.video.isPaused && Math.abs(ui.video.time - before) < 1 / state.data.fps) ui.video.time = latest;
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
  ui.signals.clear();
  ui.map.getContext("2d").clearRect(0, 0, ui.map.width, ui.map.height);
}
