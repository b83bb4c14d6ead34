// The reviewer's queue: whether the shown video is assigned to them, and the way to the next one.

import { submitAction } from "./actions.js";
import { createNode } from "../dom/dom.js";
import { stacksOf } from "../state/outbox.js";
import { setStatus } from "../dom/status.js";

// The assignment of the shown video to this reviewer: that of the shown run, else the last one of another run; null
// without one. What waits in the outbox counts.
function ownAssignment(player) {
  const queue = player.review.state?.queue ?? [];
  const found = queue.find(({ run }) => run === player.data.run_name) ?? queue[0];
  if (!found) return null;
  const waiting = player.outbox.all(),
    { undone } = stacksOf(waiting);
  const isDone = waiting.some(
    ({ kind, run, action_id, video_id, reviewer }) =>
      kind === "done" &&
      run === found.run &&
      video_id === player.data.video_id &&
      reviewer === player.reviewer &&
      !undone.includes(action_id),
  );
  return { ...found, is_done: found.is_done || isDone };
}

// Shows whether the video is in the reviewer's queue, above the failure keys.
export function drawQueue(player) {
  const found = player.data ? ownAssignment(player) : null,
    line = player.find("queue");
  line.hidden = !found;
  if (!found) return;
  const where = found.run ? ` in the run ${found.run}` : "",
    others = found.others.length ? `, also to ${found.others.join(", ")}` : "";
  const next = createNode("button", "ss-finish", found.is_done ? "next video (!)" : "done, next (!)");
  next.type = "button";
  next.dataset.do = "finishVideo";
  line.replaceChildren(
    createNode("span", "", found.is_done ? "You are done with this video. " : `Assigned to you${where}${others}. `),
    next,
  );
}

// Marks the video as done, and opens the next one of the queue.
export function finishVideo(player) {
  const found = ownAssignment(player);
  if (!found) return setStatus(player, "This video is not in your queue: the tab Reviews has it.");
  if (!found.is_done) submitAction(player, "done", { run: found.run });
  player.trigger("next_video", { video_id: player.data.video_id, run: found.run, reviewer: player.reviewer });
}
