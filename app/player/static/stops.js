// Where N and P stop: at failures and, if that is switched on, at matched texts of low similarity. The latter is a setting of
// the player: those texts are no failures, and no count or score has them.

import { KINDS } from "./data.js";
import { kinds, state } from "./state.js";

export const LOW = "low similarity", LOW_SIGN = "≈";

// A similarity as it is typed, 0.8 or 0,8, in hundredths; null for anything else.
export function similarityOf(text) {
  const value = text.trim() ? Number(text.trim().replace(",", ".")) : NaN;
  return value >= 0 && value <= 1 ? Number(value.toFixed(2)) : null;
}

// Whether there are outputs that can fail: a reference alone has none.
export function canFail(data) { return data.has_reference && data.is_judged && !data.isReferenceAlone; }

export function whyNoFailures() {
  if (!state.data.has_reference) return "There is no reference to fail against.";
  return state.data.isReferenceAlone ? "There is no run here that can fail: this is the reference alone." : "The run still streams: its failures are known once it ends.";
}

export function signOf(kind) { return KINDS[kind] ?? LOW_SIGN; }

// Matched texts whose similarity, as it is shown, is low; in the shape of failures.
export function lowTexts(data) {
  return data.turns.map((turn, number) => ({ turn, number }))
    .filter(({ turn }) => turn.role === "assistant" && turn.verdict === "matched" && turn.score !== null && Number(turn.score.toFixed(2)) < state.lowSimilarity)
    .map(({ turn, number }) => ({
      kind: LOW, turn: number, reference: turn.link, frame: turn.frame, time: turn.time, key: turn.key, cause: null,
      words: `${turn.score.toFixed(2)}, below ${state.lowSimilarity.toFixed(2)}: matched, no failure`,
    }));
}

// Failures and, if they are switched on, texts of low similarity, in the order of time.
export function stopsOf(data) {
  return kinds.has(LOW) ? [...data.failures, ...lowTexts(data)].sort((a, b) => a.time - b.time) : data.failures;
}
