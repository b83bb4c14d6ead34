// Events and actions in words.

import { clockText, correctedText, referenceWord } from "../state/data.js";
import { lastTurn } from "../state/layer.js";

const KIND_LABELS = { generated: "model said", update: "model update", state: "wrong state of" };

export function eventLabel(data, { kind, role }) {
  if (KIND_LABELS[kind]) return KIND_LABELS[kind];
  return role === "user" ? "user turn" : `${referenceWord(data)} ${role === "update" ? "update" : "turn"}`;
}

function nameOf(label, text, time) {
  return `${label} “${text.length > 60 ? `${text.slice(0, 60)}…` : text}” at ${clockText(time)}`;
}

// Describes an event, such as “model update S3->start at 0:12.0”.
export function describeEvent(player, event) {
  const { text, time } = lastTurn(player, event.key) ?? event,
    name = nameOf(eventLabel(player.data, event), text, time);
  return `${name}${event.pair ? ` with its ${referenceWord(player.data)}` : ""}`;
}

// Describes an action and its event; of the event's pair, only the side that changed. The event is null if it was never
// here. `what` is the action that was taken back or brought back, such as “your deletion of”.
export function describeAction(player, { kind, correction }, event, what) {
  if (correction) return describeCorrection(player, correction, event);
  const done = kind === "undo" ? "Taken back" : "Brought back";
  return `${done}: ${event ? `${what} ${describeEvent(player, event)}` : what.replace(/ (of|on)$/, "")}.`;
}

export function conflictText({ aspect, wishes }) {
  return `Reviewers disagree about its ${aspect} (${wishes}): the source is kept.`;
}

// A changed turn is named as in the source.
function describeCorrection(player, { kind, turn, text, time_s, end_s }, event) {
  const source = nameOf(eventLabel(player.data, { role: turn.role }), turn.text, turn.time_s),
    named = event ? describeEvent(player, event) : source,
    isTorn = ({ key, aspect }) => key === event?.key && player.settings.aspects[kind].includes(aspect),
    conflict = player.layer?.conflicts.find(isTorn);
  if (conflict) return `Not applied to the ${source}: ${conflictText(conflict)} Z takes yours back.`;
  if (kind === "delete") return `Deleted the ${named}. Z brings it back.`;
  const isNew = event && lastTurn(player, event.key)?.is_added;
  if (kind === "add") return `${isNew ? "Added" : "Brought back"} the ${named}. Z takes it back.`;
  const part = time_s === undefined ? "text" : "time",
    isBack = kind !== "span" && (part === "text" ? text === turn.text : Math.abs(time_s - turn.time_s) < 5e-4);
  if (isBack)
    return `The ${source} has its ${isNew ? `first ${part}` : `${part} of the source`} again. Z takes it back.`;
  if (kind === "boundary")
    return `Moved all updates at ${correctedText(turn.time_s)} to ${correctedText(time_s)}. Z takes it back.`;
  const spans =
      typeof end_s === "number" ? `lasts from ${correctedText(time_s)} to ${correctedText(end_s)}` : "is an instant",
    says = part === "text" ? `says “${text}”` : `is at ${correctedText(time_s)}`;
  return `Corrected the ${source}: it ${kind === "span" ? spans : says}. Z takes it back.`;
}
