// Submits reviewers' actions to the outbox.

import { find } from "../dom/dom.js";
import { currentEvent, currentPlace, mergeOpinions } from "./opinions.js";
import { newActionId, outbox } from "./outbox.js";
import { review, reviewer, state, ui } from "../state/state.js";
import { setStatus } from "../dom/status.js";
import { reviewKey, sendWaiting } from "./sync.js";
import { openTab } from "../panels/tabs.js";

// Puts an action into the outbox, sends it, and calls `done`. Without a reviewer's name it waits for one; returns
// whether it was accepted.
export function submitAction(kind, more, done = () => {}) {
  if (!state.data) return false;
  const place = currentPlace(),
    action = { action_id: newActionId(), kind, video_id: state.data.video_id, ...more, moment: currentMoment() };
  review.origins.set(action.action_id, place);
  if (reviewer()) return putAction(action, done);
  review.unnamed.push({ action, done });
  openTab("review");
  find("who").focus();
  setStatus("Not saved yet. Type your name and press Enter.");
  ui.drawReview();
  return false;
}

function currentMoment() {
  return {
    run_digest: state.data.run,
    model_digest: state.data.model,
    playhead_s: ui.video.time,
    speak_threshold: state.data.thresholds.speak,
    update_threshold: state.data.thresholds.update,
  };
}

function putAction(action, done) {
  const named = { ...action, reviewer: reviewer() };
  outbox.put(named);
  review.refusals.delete(reviewKey(named));
  mergeOpinions();
  if (review.problem) setStatus("Not saved yet: kept in this browser, and sent when the server answers.");
  sendWaiting();
  done();
  return true;
}

// Submits the actions that waited for the reviewer's name.
export function submitUnnamed() {
  for (const { action, done } of review.unnamed.splice(0)) putAction(action, done);
}

// Drops the actions that wait for a name; typed texts stay drafts.
export function dropUnnamed() {
  if (!review.unnamed.splice(0).length) return;
  setStatus("Not saved: there is no reviewer's name.");
  ui.drawReview();
}

export function submitForEvent(kind, more, done) {
  const event = currentEvent();
  if (!event) return setStatus("There is no event here to judge: W goes to the next one.", true);
  return submitAction(
    kind,
    { event: eventIdentity(event), ...(event.pair ? { paired: eventIdentity(event.pair) } : {}), ...more },
    done,
  );
}

function eventIdentity({ key, kind, role, time, text, number }) {
  return { key, kind, role, time_s: time, text, number };
}

// Undo or redo. The target is named if it waits in the outbox, so that a refusal cannot redirect the undo.
export function undoOrRedo(kind) {
  const mine = outbox
    .all()
    .filter((action) => action.reviewer === reviewer() && action.video_id === state.data.video_id);
  const done = [],
    undone = [];
  for (const action of mine) {
    if (action.kind === "undo") undone.push(...(action.target ? done.splice(done.indexOf(action.target), 1) : []));
    else if (action.kind === "redo")
      done.push(...(action.target ? undone.splice(undone.indexOf(action.target), 1) : []));
    else done.push(action.action_id);
  }
  submitAction(kind, { target: (kind === "undo" ? done : undone).at(-1) ?? null });
}
