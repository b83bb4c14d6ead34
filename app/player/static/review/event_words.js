// Events and corrections in words.

import { clockText } from "../state/data.js";
import { correctedTurn, eventTime } from "./layer.js";

// Describes an event, such as “model update S3->start at 0:12.0”.
export function describeEvent(event) {
  const text = correctedTurn(event)?.text ?? event.text, short = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return `${KIND_LABELS[event.kind] ?? ROLE_LABELS[event.role]} “${short}” at ${clockText(eventTime(event))}${event.pair ? " with its reference" : ""}`;
}

export const KIND_LABELS = { generated: "model said", update: "model update", state: "wrong state of" };
export const ROLE_LABELS = { update: "reference update", user: "user turn", assistant: "reference turn" };

// Describes a correction and its turn, by the turn's identity in the source.
export function correctionText({ kind, turn, text, time_s }) {
  const name = `the ${ROLE_LABELS[turn.role]} “${turn.text}” at ${clockText(turn.time_s)}`;
  if (kind === "delete") return `Deleted ${name}. Z brings it back.`;
  if (kind === "add") return `Added ${name}. Z takes it back.`;
  if (kind === "boundary") return `Moved all updates at ${clockText(turn.time_s)} to ${clockText(time_s)}. Z takes it back.`;
  return `Corrected ${name}: ${time_s === undefined ? `it says “${text}”` : `it is at ${clockText(time_s)}`}. Z takes it back.`;
}
