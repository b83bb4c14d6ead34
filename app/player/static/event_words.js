// Events and corrections in words.

import { clockText } from "./data.js";
import { correctedTurn, eventTime } from "./layer.js";

// An event in words, such as “model update S3->start at 0:12.0”.
export function nameOfEvent(event) {
  const text = correctedTurn(event)?.text ?? event.text, short = text.length > 60 ? `${text.slice(0, 60)}…` : text;
  return `${KIND_WORDS[event.kind] ?? ROLE_WORDS[event.role]} “${short}” at ${clockText(eventTime(event))}${event.pair ? " with its reference" : ""}`;
}

export const KIND_WORDS = { generated: "model said", update: "model update", state: "wrong state of" };
export const ROLE_WORDS = { update: "reference update", user: "user turn", assistant: "reference turn" };

// A correction in words: of which turn, by its name in the source.
export function correctionWords({ kind, turn, text, time_s }) {
  const name = `the ${ROLE_WORDS[turn.role]} “${turn.text}” at ${clockText(turn.time_s)}`;
  if (kind === "delete") return `Deleted ${name}. Z brings it back.`;
  if (kind === "add") return `Added ${name}. Z takes it back.`;
  if (kind === "boundary") return `Moved all updates at ${clockText(turn.time_s)} to ${clockText(time_s)}. Z takes it back.`;
  return `Corrected ${name}: ${time_s === undefined ? `it says “${text}”` : `it is at ${clockText(time_s)}`}. Z takes it back.`;
}
