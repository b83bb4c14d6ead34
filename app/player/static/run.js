// Shows a run, the increments of a streaming run, or no run.

import { drawKinds, drawListPlace, drawOnlyKind, LIST_NOUNS } from "./playback/failure_stops.js";
import { updateSound } from "./lanes/sound.js";
import { isLinkAtStart, nameOpening, openAt, openLinkedMoment, takeLinkedEvent, takeLinkedScoring } from "./address.js";
import { layout, requestPaint, setView, updateCounts } from "./timeline/chart.js";
import { clockText, referenceWord } from "./state/data.js";
import { createButton, createNode, focusedInput, setStatus, showTurns } from "./dom/dom.js";
import { suggestFold } from "./dom/fold.js";
import { followRun } from "./focus.js";
import { showChanges } from "./panels/failure_changes.js";
import { drawWhatIf, keepBranch } from "./panels/what_if.js";
import { closeInspection } from "./panels/inspection.js";
import { scoreIfWanted } from "./state/layer.js";
import { AVAILABLE_SCOPES, currentEvent, eventByKey, mergeOpinions, resetReview } from "./events/opinions.js";
import { drawProvenance } from "./panels/provenance.js";
import { goToEvent, goToFailure, goToLinked, stopIndexOf } from "./playback/selection.js";
import { redrawPlayhead } from "./clock/playhead.js";
import { calmText, canFail, findStops, isChosen, stopNoun, stopText } from "./state/stops.js";
import { setReviewing } from "./review/review.js";
import { sendWaiting } from "./review/sync.js";
import { offerTour } from "./panels/tour.js";
import { settleThresholds } from "./playback/threshold_moves.js";

const NO_RUN = "Press Run: responses, updates and step states appear here, in time with the video.";

// Shows another run, or the first part of a streaming run; null for none.
export function showRun(player, next) {
  const isSame = player.data !== null && next?.video_id === player.data.video_id;
  leaveRun(player, next, isSame);
  setRun(player, next, isSame);
  if (next) land(player, isSame);
}

// Keeps of the run before what the next one of the same video shows again, and closes what was about it alone.
function leaveRun(player, next, isSame) {
  if (player.data !== null && !isSame) player.review.saved = "";
  if (!isSame) player.kept = null;
  else if (player.selectedTime !== null && currentEvent(player))
    player.kept = { key: player.review.current, time: player.selectedTime };
  if (!isSame || ![...next.events, ...(player.layer?.turns ?? [])].some(({ key }) => key === player.review.current))
    focusedInput(player)?.blur();
  const isOtherRun = next?.run !== player.data?.run;
  if (isOtherRun || !isSame) closeInspection(player);
  if (isOtherRun || player.isStatusOfJudgement) setStatus(player, "");
}

// Draws a run; its video starts anew unless it is the same.
function setRun(player, next, isSame) {
  player.video.refresh();
  player.data = next;
  player.root.classList.toggle("ss-has-run", Boolean(next));
  player.find("empty").textContent = next ? "" : (player.settings.hint ?? (nameOpening(player) || NO_RUN));
  settleThresholds(player);
  if (next) next.stops = findStops(next);
  showChanges(player, next);
  markForeignRun(player);
  drawIntro(player);
  followRun(player);
  announceStudied(player);
  drawAnswer(player);
  keepBranch(player);
  if (player.tab === "what_if") drawWhatIf(player);
  if (!next) return clearRun(player);
  for (const name of ["previousFailure", "nextFailure"])
    player.find("bar").querySelector(`[data-do=${name}]`).disabled = !canFail(next);
  if (!isSame) resetVideo(player);
  if (!AVAILABLE_SCOPES[player.review.scope](player)) player.review.scope = player.find("scope").value = "all";
  player.video.end = next.duration_s;
  nameCaptions(player);
  player.video.caption(next, player.video.captions);
  player.transcript.draw(next);
  drawKinds(player);
  drawListPlace(player);
  drawProvenance(player);
  updateSound(player);
  layout(player);
  if (!next.is_corrected) scoreIfWanted(player); // the run is new, not the layer
  player.find("against").checked = player.review.wantsCorrected;
  mergeOpinions(player);
  if (next.events.length) sendWaiting(player);
}

function resetVideo(player) {
  player.timeline.view = { start: 0, end: player.data.duration_s };
  Object.assign(player.shown, { region: null, isLooping: false });
  player.find("bar").querySelector("[data-do=loop]").ariaPressed = false;
  player.stopIndex = null;
  resetReview(player);
  player.review.wantsCorrected = player.settings.can_review && takeLinkedScoring(player);
  if (player.data.is_live) player.video.time = player.latest = 0;
}

// Goes where the run was opened (its landing), else to the moment of the address, else stays at the event that was
// selected before.
function land(player, isSame) {
  const { landing, events } = player.data;
  if (landing.time !== null) {
    window.scrollTo(0, 0); // the table that opened it may have been scrolled
    openAt(player, landing.time);
  } else if (!isSame) openLinkedMoment(player);
  const isKept = events.length > 0 && selectKept(player);
  if (!currentEvent(player)) player.selectedTime = null;
  player.stopIndex = player.selectedTime === null ? null : stopIndexOf(player, currentEvent(player));
  const opened = eventByKey(player, landing.event),
    linked = takeLinkedEvent(player);
  if (landing.opens_review) setReviewing(player, true);
  if (opened) {
    setStatus(player, ""); // it was about the event before
    goToEvent(player, opened);
  } else if (linked) goToLinked(player, linked);
  else if (isKept && player.stopIndex !== null && !player.find("said").textContent)
    setStatus(player, openingText(player));
  else if (events.length && landing.is_from_start) goToFirstFailure(player);
  player.address.isStep = Boolean(landing.place); // any other landing was no choice of a moment
  if (!(opened ?? linked) || landing.place?.of === "settle" || player.stopIndex === null) return;
  setStatus(player, openingText(player), true);
  if (opened && !isLinkAtStart(player)) offerTour(player);
}

function nameCaptions(player) {
  const option = player.find("captions").options[2],
    word = referenceWord(player.data);
  option.text = `CC ${word}`;
  option.label = word === "reference" ? "CC ref." : option.text;
}

// Marks the page while it shows a run of a different model, which the page's model cannot continue; the style sheet has
// the rest.
function markForeignRun(player) {
  if (player.settings.model_digest) document.documentElement.toggleAttribute("data-foreign-run", player.isForeignRun);
}

// Says in a line who watches what, and that it is a recording.
function drawIntro({ data, settings }) {
  const line = settings.hint ? null : document.querySelector(".intro");
  if (line) line.textContent = showTurns(data?.intro ?? "");
}

// Asks, once for each run, before *Run* shows the page's model in place of another one.
export function mountRun(player) {
  const agreed = new Set(),
    dialog = player.find("replace");
  const ask = (event) => {
    const button = event.target.closest?.("#run");
    if (!button || !player.isForeignRun || agreed.has(player.data.run)) return;
    event.stopImmediatePropagation(); // Gradio listens at the button
    const { run, origin } = player.data,
      model = origin.rows.find(([label]) => label === "model")?.[1] ?? "Another model";
    dialog.onclose = () => dialog.returnValue && agreed.add(run) && button.click();
    dialog.replaceChildren(
      createNode("p", "", `${model} made this run: Run shows ${player.settings.model} in its place.`),
      createButton("", `run ${player.settings.model}`, () => dialog.close("run")),
      createButton("", "keep this run (Esc)", () => dialog.close("")),
    );
    dialog.returnValue = "";
    dialog.showModal();
  };
  player.listen(document, "click", ask, { capture: true });
}

// Folds the form of a run away while there is a run to study, or one that opens.
function announceStudied(player) {
  const form = nameOpening(player) || (player.data && !player.data.isReferenceAlone) ? "folded" : "open";
  if (!player.settings.hint) suggestFold("form", form);
}

// Goes to the first failure of a run that has ended, unless the user has left the start of the video.
function goToFirstFailure(player) {
  const isMoved = player.selectedTime !== null || !player.video.isPaused || player.video.time > 0.05;
  if (isMoved || player.find("said").textContent || !canFail(player.data)) return;
  const number = player.data.stops.findIndex((stop) => isChosen(player, stop));
  if (number >= 0) goToFailure(player, number);
  setStatus(player, openingText(player), true);
}

// The line of a run that opens at a failure, or has none, and the keys for the next steps.
function openingText(player) {
  const { landing, stops, num_later: later } = player.data,
    place = player.stopIndex === null ? calmText(stops.length, later) : stopText(player, stops[player.stopIndex]),
    next = stops.length || landing.place ? `N: next ${LIST_NOUNS[landing.place?.of] ?? stopNoun(player)} · ` : "";
  return matchMedia("(pointer: coarse)").matches ? place : `${place} · ${next}?: all keys`;
}

// Selects the event again that was selected before the video streamed again, if it is there and the playhead at it.
function selectKept(player) {
  const { kept } = player,
    isAtKept = kept !== null && Math.abs(player.video.time - kept.time) < 0.5 / player.data.fps,
    found = isAtKept && eventByKey(player, kept.key);
  if (found) [player.review.current, player.selectedTime] = [kept.key, kept.time];
  player.kept = null;
  return Boolean(found);
}

// Shows an increment of a streaming run; paints at most once per animation frame.
export function showIncrement(player, added) {
  player.transcript.insert(added.map(({ place }) => place));
  const turns = added.map(({ row }) => row.turn);
  player.video.appendCaptions(
    player.data,
    turns.filter((turn) => turn?.role === "assistant"),
  );
  player.canvas.ariaValueMax = player.data.duration_s.toFixed(1);
  const hasState = player.timeline.rows.some(({ kind }) => kind === "state"),
    isAdded = hasState !== player.data.assistant_states.length > 0;
  // the first question or state adds a lane
  if (isAdded || added.some(({ row }) => row.role === "user")) layout(player);
  if (player.data.is_live) followLatest(player);
  drawAnswer(player);
  updateCounts(player);
  redrawPlayhead(player);
  requestPaint(player);
}

// Shows the response that is being generated, token by token.
function drawAnswer(player) {
  const answer = player.data?.progress;
  player.find("answer").textContent =
    answer && !player.data.is_live ? `Answering at ${clockText(answer.time)}: ${showTurns(answer.text)}` : "";
}

const LIVE_VIEW_S = 120; // the longest view that grows with a live session; a later one scrolls

// Moves the playhead and the view of a live session to the latest frame, unless the user went back.
function followLatest(player) {
  const { start, end } = player.timeline.view,
    latest = player.data.times.at(-1),
    before = player.latest ?? 0;
  if (latest === undefined) return; // the first frame is still answered
  player.latest = latest;
  player.video.end = player.data.duration_s;
  if (latest > end && before <= end)
    setView(player, latest - Math.min(LIVE_VIEW_S, Math.max(end - start, latest)), latest);
  if (player.video.isPaused && Math.abs(player.video.time - before) < 1 / player.data.fps) player.video.time = latest;
}

function clearRun(player) {
  player.stopIndex = null;
  resetReview(player);
  player.drawReview();
  setStatus(player, "");
  player.find("clock").textContent = clockText(0);
  player.head.style.visibility = "hidden";
  for (const name of ["now", "rows", "curves", "kinds", "counts", "origins"]) player.find(name).replaceChildren();
  drawOnlyKind(player, null);
  player.find("why").replaceChildren();
  player.timeline.clear();
  player.signals.clear();
  player.map.getContext("2d").clearRect(0, 0, player.map.width, player.map.height);
}
