// Dragging of corrected turns in their lane.

import { CLICK_SLOP_PX, pointerOffset, trackDrag } from "../dom/dom.js";
import { eventByKey } from "../events/opinions.js";
import { hasSpan } from "../lanes/reviewed.js";
import { goToEvent } from "../playback/selection.js";
import { requestPaint } from "../timeline/chart.js";
import { moveTurn, setSpan } from "./corrections.js";
import { snapSpan, snapTime } from "./spans.js";

function setStart(player, turn, time) {
  const time_s = Math.max(0, Math.min(snapTime(player, time), turn.end - 1e-3));
  setSpan(player, turn, { time_s, end_s: turn.end });
}

function setEnd(player, turn, time) {
  setSpan(player, turn, { ...snapSpan(player, turn.time, time), time_s: turn.time });
}

// Drags the `time` of a turn, or the `end` of its reply span, and corrects it where it ends.
export function dragTurn(player, { turn: dragged, edge }, event) {
  const { canvas, timeline } = player,
    began = pointerOffset(canvas, event)[0],
    turn = { ...dragged },
    submit = edge === "end" ? setEnd : hasSpan(turn) ? setStart : moveTurn;
  goToEvent(player, eventByKey(player, turn.key), turn.time);
  const isMoved = (later) => Math.abs(pointerOffset(canvas, later)[0] - began) >= CLICK_SLOP_PX;
  const timeAt = (later) =>
    turn[edge] + (isMoved(later) ? timeline.time(pointerOffset(canvas, later)[0]) - timeline.time(began) : 0);
  const move = (later) => {
    dragged[edge] = timeAt(later);
    requestPaint(player);
  };
  trackDrag(canvas, event, move, (last) => {
    dragged[edge] = turn[edge];
    if (isMoved(last)) submit(player, turn, timeAt(last));
    requestPaint(player);
  });
}
