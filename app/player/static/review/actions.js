// Submits reviewers' actions to the outbox.

import { find } from "../dom/dom.js";
import { currentEvent, mergeOpinions } from "./opinions.js";
import { newActionId, outbox } from "./outbox.js";
import { review, reviewer, state, ui } from "../state/state.js";
import { setStatus } from "../dom/status.js";
import { reviewKey, sendWaiting } from "./sync.js";
import { openTab } from "../panels/tabs.js";

// Puts an action into the outbox and sends it; returns whether it was accepted.
export function submitAction(kind, more) {
  if (!state.data) return false;
  if (!reviewer()) {
    openTab("review");
    find("who").focus();
    setStatus("Who reviews? Type your name, press Enter, then continue.");
    return false;
  }
  const action = {
    action_id: newActionId(), kind, video_id: state.data.video_id, reviewer: reviewer(), ...more,
    moment: {
      run_digest: state.data.run, model_digest: state.data.model, playhead_s: ui.video.time,
      speak_threshold: state.data.thresholds.speak, update_threshold: state.data.thresholds.update,
    },
  };
  outbox.put(action);
  review.refusals.delete(reviewKey(action));
  mergeOpinions();
  if (review.problem) setStatus("Not saved yet: kept in this browser, and sent when the server answers.");
  sendWaiting();
  return true;
}

export function submitForEvent(kind, more) {
  const event = currentEvent();
  if (!event) return setStatus("There is no event here to judge: W goes to the next one.", true);
  return submitAction(kind, { event: eventIdentity(event), ...(event.pair ? { paired: eventIdentity(event.pair) } : {}), ...more });
}

function eventIdentity({ key, kind, role, time, text, number }) { return { key, kind, role, time_s: time, text, number }; }

// Undo or redo. The target is named if it waits in the outbox, so that a refusal cannot redirect the undo.
export function undoOrRedo(kind) {
  const mine = outbox.all().filter((action) => action.reviewer === reviewer() && action.video_id === state.data.video_id);
  const done = [], undone = [];
  for (const action of mine) {
    if (action.kind === "undo") undone.push(...(action.target ? done.splice(done.indexOf(action.target), 1) : []));
    else if (action.kind === "redo") done.push(...(action.target ? undone.splice(undone.indexOf(action.target), 1) : []));
    else done.push(action.action_id);
  }
  submitAction(kind, { target: (kind === "undo" ? done : undone).at(-1) ?? null });
}
