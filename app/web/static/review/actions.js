// Submits reviewers' actions to the outbox.

import { currentEvent, currentPlace, mergeOpinions } from "./opinions.js";
import { newActionId, stacksOf } from "../state/outbox.js";
import { setStatus } from "../dom/status.js";
import { reviewKey, sendWaiting } from "./sync.js";
import { openTab } from "../panels/tabs.js";

// Puts an action into the outbox, sends it, and calls `done`. Without a reviewer's name it waits for one; returns
// whether it was accepted.
export function submitAction(player, kind, more, done = () => {}) {
  if (!player.data) return false;
  const place = currentPlace(player),
    action = { action_id: newActionId(), kind, video_id: player.data.video_id, ...more, moment: currentMoment(player) };
  player.review.origins.set(action.action_id, place);
  if (player.reviewer) return putAction(player, action, done);
  player.review.unnamed.push({ action, done });
  openTab(player, "review");
  player.find("who").focus();
  setStatus(player, "Not saved yet. Type your name and press Enter.");
  player.drawReview();
  return false;
}

function currentMoment(player) {
  return {
    run_digest: player.data.run,
    model_digest: player.data.model,
    playhead_s: player.video.time,
    speak_threshold: player.data.thresholds.speak,
    update_threshold: player.data.thresholds.update,
  };
}

function putAction(player, action, done) {
  const named = { ...action, reviewer: player.reviewer };
  player.outbox.put(named);
  player.review.refusals.delete(reviewKey(named));
  mergeOpinions(player);
  if (player.review.problem)
    setStatus(player, "Not saved yet: kept in this browser, and sent when the server answers.");
  sendWaiting(player);
  done();
  return true;
}

// Submits the actions that waited for the reviewer's name.
export function submitUnnamed(player) {
  for (const { action, done } of player.review.unnamed.splice(0)) putAction(player, action, done);
}

// Drops the actions that wait for a name; typed texts stay drafts.
export function dropUnnamed(player) {
  if (!player.review.unnamed.splice(0).length) return;
  setStatus(player, "Not saved: there is no reviewer's name.");
  player.drawReview();
}

export function submitForEvent(player, kind, more, done) {
  const event = currentEvent(player);
  if (!event) return setStatus(player, "There is no event here to judge: W goes to the next one.", true);
  return submitAction(
    player,
    kind,
    { event: eventIdentity(event), ...(event.pair ? { paired: eventIdentity(event.pair) } : {}), ...more },
    done,
  );
}

function eventIdentity({ key, kind, role, time, text, number }) {
  return { key, kind, role, time_s: time, text, number };
}

// Undo or redo. The target is named if it waits in the outbox, so that a refusal cannot redirect the undo.
export function undoOrRedo(player, kind) {
  const mine = player.outbox
    .all()
    .filter((action) => action.reviewer === player.reviewer && action.video_id === player.data.video_id);
  const { done, undone } = stacksOf(mine);
  submitAction(player, kind, { target: (kind === "undo" ? done : undone).at(-1) ?? null });
}
