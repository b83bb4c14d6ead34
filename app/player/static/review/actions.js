// Submits reviewers' actions to the outbox. A text that is typed for an event and not submitted yet is a draft.

import { currentEvent, currentPlace, mergeOpinions } from "../events/opinions.js";
import { newActionId, stacksOf } from "../state/outbox.js";
import { draftKey, setStatus } from "../dom/dom.js";
import { reviewKey, sendWaiting } from "./sync.js";
import { openTab } from "../panels/tabs.js";

// Puts an action into the outbox, sends it, and calls `done`. Without a reviewer's name it waits for one.
export function submitAction(player, kind, more, done = () => {}) {
  if (!player.data) return;
  const place = currentPlace(player),
    action = { action_id: newActionId(), kind, video_id: player.data.video_id, ...more, moment: currentMoment(player) };
  player.review.origins.set(action.action_id, place);
  if (player.reviewer) return putAction(player, action, done);
  player.review.unnamed.push({ action, done });
  openTab(player, "review");
  player.find("who").focus();
  setStatus(player, "Not saved yet. Type your name and press Enter.");
  player.drawReview();
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
}

export function sendUnnamed(player) {
  for (const { action, done } of player.review.unnamed.splice(0)) putAction(player, action, done);
}

// Drops the actions that wait for a name; typed texts stay drafts.
export function dropUnnamed(player) {
  if (!player.review.unnamed.splice(0).length) return;
  setStatus(player, "Not saved: there is no reviewer's name.");
  player.drawReview();
}

export function submitForEvent(player, kind, more, done = () => {}) {
  const event = currentEvent(player);
  if (!event) return setStatus(player, "There is no event here to judge: W goes to the next one.", true);
  const paired = event.pair && { paired: eventIdentity(event.pair) };
  submitAction(player, kind, { event: eventIdentity(event), ...paired, ...more }, done);
}

function eventIdentity({ key, kind, role, time, text, number }) {
  return { key, kind, role, time_s: time, text, number };
}

// Undo or redo. The target is named if it waits in the outbox, so that a refusal cannot redirect the undo.
export function undoOrRedo(player, kind) {
  const isMine = ({ reviewer, video_id }) => reviewer === player.reviewer && video_id === player.data.video_id;
  const { done, undone } = stacksOf(player.outbox.all().filter(isMine));
  submitAction(player, kind, { target: (kind === "undo" ? done : undone).at(-1) ?? null });
}

export const isDraft = (player, box) => player.review.drafts.has(draftKey(box));

// Submits the text of an input with `work`. It stays a draft while the action waits for a reviewer's name.
export function submitInput(player, box, work) {
  const key = draftKey(box),
    forget = () => player.review.drafts.delete(key);
  player.review.drafts.set(key, box.value);
  work(box.value, forget);
  if (player.reviewer) forget();
}

// Fills an input with the opinion on an event, unless the user is typing there; a draft takes precedence.
export function fillInput(player, box, key, said) {
  const isTyped = document.activeElement === box && box.dataset.event === key;
  box.dataset.event = key;
  if (!isTyped) box.value = player.review.drafts.get(draftKey(box)) ?? said;
}

// The assignment of the shown video to this reviewer: that of the shown run, else the last one of another run; null
// without one. What waits in the outbox counts.
export function ownAssignment(player) {
  const queue = player.review.state?.queue ?? [];
  const found = queue.find(({ run }) => run === player.data.run_name) ?? queue[0];
  if (!found) return null;
  const waiting = player.outbox.all(),
    { undone } = stacksOf(waiting);
  const isOfVideo = ({ run, video_id }) => run === found.run && video_id === player.data.video_id,
    isMine = ({ kind, reviewer }) => kind === "done" && reviewer === player.reviewer,
    isDone = waiting.some((action) => isMine(action) && isOfVideo(action) && !undone.includes(action.action_id));
  return { ...found, is_done: found.is_done || isDone };
}

export function finishVideo(player) {
  const found = ownAssignment(player);
  if (!found) return setStatus(player, "This video is not in your queue: the tab Reviews has it.");
  if (!found.is_done) submitAction(player, "done", { run: found.run });
  player.trigger("next_video", { video_id: player.data.video_id, run: found.run, reviewer: player.reviewer });
}
