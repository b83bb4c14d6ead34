// Draws a run, what comes of one that streams, or none.

import { openLinkedMoment } from "./address.js";
import { askPaint, count, layOut, reveal } from "./chart.js";
import { clockText } from "./data.js";
import { find, typedBox } from "./dom.js";
import { drawBelow, drawKinds } from "./failure_stops.js";
import { closeInspection } from "./inspection.js";
import { judgeAgainst } from "./layer.js";
import { currentEvent, eventOf, forget, OFFERED, recall } from "./opinions.js";
import { drawProvenance } from "./provenance.js";
import { failureOf, goToEvent } from "./selection.js";
import { layer, review, shown, state, ui } from "./state.js";
import { say } from "./status.js";
import { canFail, stopsOf } from "./stops.js";
import { send } from "./sync.js";
import { openTab } from "./tabs.js";
import { settleThresholds } from "./thresholds.js";

// Draws another run, or the first part of one that streams; null for none.
export function draw(next) {
  const isSame = state.data !== null && next?.video_id === state.data.video_id;
  if (!isSame || ![...next.events, ...(layer()?.turns ?? [])].some(({ key }) => key === review.current)) typedBox()?.blur();
  ui.video.refresh();
  if (next?.run !== state.data?.run || !isSame) closeInspection();
  if (next?.run !== state.data?.run || state.isSaidOfJudgement) say(""); // of another run, or of another judgement of this one
  state.data = next;
  ui.root.classList.toggle("ss-has-run", Boolean(state.data));
  find("empty").textContent = state.data ? "" : "Press Run: what the assistant says and believes appears here, on the video's clock.";
  settleThresholds();
  if (!state.data) return clear();
  state.data.stops = stopsOf(state.data);
  for (const name of ["previousFailure", "nextFailure"]) find("bar").querySelector(`[data-do=${name}]`).disabled = !canFail(state.data);
  if (!isSame) {
    ui.lanes.view = { start: 0, end: state.data.duration_s };
    shown.region = null;
    shown.isLooping = false;
    state.cursor = null;
    forget();
  }
  if (!OFFERED[review.scope]()) review.scope = find("scope").value = "all";
  ui.video.caption(state.data, ui.video.captions);
  ui.transcript.draw(state.data);
  drawKinds();
  drawProvenance();
  layOut();
  if (review.wantsCorrected && !state.data.is_corrected && state.data.is_finished) judgeAgainst(); // it is the run that is new
  find("against").checked = review.wantsCorrected;
  recall();
  if (state.data.events.length) send();
  if (state.data.open_at !== null) { ui.video.arriveAt(state.data.open_at); reveal(state.data.open_at); }
  else if (!isSame) openLinkedMoment();
  if (!currentEvent()) state.held = null;
  state.cursor = state.held === null ? null : failureOf(currentEvent());
  const opened = eventOf(state.data.open_event);
  if (opened) { openTab("review"); goToEvent(opened); }
}

// Draws what came of the run that streams; on the canvas once per animation frame at most.
export function grow(added) {
  ui.transcript.insert(added.map(({ place }) => place));
  ui.video.appendCaptions(state.data, added.map(({ row }) => row.turn).filter((turn) => turn.role === "assistant"));
  ui.canvas.setAttribute("aria-valuemax", state.data.duration_s.toFixed(1));
  count();
  askPaint();
}

function clear() {
  state.cursor = null;
  forget();
  ui.drawReview();
  say("");
  find("clock").textContent = clockText(0);
  ui.head.style.visibility = "hidden";
  for (const name of ["now", "rows", "curves", "kinds", "counts", "origins"]) find(name).replaceChildren();
  drawBelow();
  ui.lanes.context?.clearRect(0, 0, ui.lanes.width, ui.lanes.height);
  ui.map.getContext("2d").clearRect(0, 0, ui.map.width, ui.map.height);
}
