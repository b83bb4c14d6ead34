// What reviewers do, given to the outbox.

import { find } from "./dom.js";
import { currentEvent, recall } from "./opinions.js";
import { newName, outbox } from "./outbox.js";
import { review, reviewer, state, ui } from "./state.js";
import { say } from "./status.js";
import { pairOf, send } from "./sync.js";
import { openTab } from "./tabs.js";

// Gives an action to the outbox; says whether it is there.
export function give(kind, more) {
  if (!state.data) return false;
  if (!reviewer()) {
    openTab("review");
    find("who").focus();
    say("Who reviews? Type your name, press Enter, then go on.");
    return false;
  }
  const action = {
    action_id: newName(), kind, video_id: state.data.video_id, reviewer: reviewer(), ...more,
    moment: {
      run_digest: state.data.run, model_digest: state.data.model, playhead_s: ui.video.time,
      speak_threshold: state.data.thresholds.speak, update_threshold: state.data.thresholds.update,
    },
  };
  outbox.put(action);
  review.refusals.delete(pairOf(action));
  recall();
  if (review.problem) say("Not saved yet: kept in this browser, and sent when the server answers.");
  send();
  return true;
}

export function giveToEvent(kind, more) {
  const event = currentEvent();
  if (!event) return say("There is no event here to judge: W goes to the next one.", true);
  return give(kind, { event: named(event), ...(event.pair ? { paired: named(event.pair) } : {}), ...more });
}

function named({ key, kind, role, time, text, number }) { return { key, kind, role, time_s: time, text, number }; }

// Takes back, or brings back. What waits in the outbox is named, so that nothing else is meant should it be refused.
export function takeBack(kind) {
  const mine = outbox.all().filter((action) => action.reviewer === reviewer() && action.video_id === state.data.video_id);
  const done = [], undone = [];
  for (const action of mine) {
    if (action.kind === "undo") undone.push(...(action.target ? done.splice(done.indexOf(action.target), 1) : []));
    else if (action.kind === "redo") done.push(...(action.target ? undone.splice(undone.indexOf(action.target), 1) : []));
    else done.push(action.action_id);
  }
  give(kind, { target: (kind === "undo" ? done : undone).at(-1) ?? null });
}
