// Interprets the decision policy of a run, an entry of engine/policies.toml in the payload, as engine/policies.py does.
// tests/data/policies.json holds cases that both must decide alike.

const COMPARISONS = {
  ">": { exceeds: (prob, threshold) => prob > threshold, signs: ["≤", ">"] },
  ">=": { exceeds: (prob, threshold) => prob >= threshold, signs: ["<", "≥"] },
};

// Whether the policy decides on a signal: "speak", or "update".
export function hasSignal(policy, signal) { return signal === "speak" || policy.has_updates; }

export function exceeds(policy, signal, prob, threshold) {
  return hasSignal(policy, signal) && COMPARISONS[policy.comparison].exceeds(prob, threshold);
}

// The sign between a probability and its threshold, by whether the probability exceeds it.
export function signOf(policy, isAbove) { return COMPARISONS[policy.comparison].signs[Number(isAbove)]; }

// The condition of a decision, such as "> 0.50" or "≥ 0.50, 2 in a row", from the threshold as text.
export function conditionText(policy, threshold) {
  const count = policy.frames_in_a_row;
  return `${signOf(policy, true)} ${threshold}${count > 1 ? `, ${count} in a row` : ""}`;
}

// Decides one signal frame by frame. The count restarts after each trigger.
export class TriggerCounter {
  constructor(policy, signal, threshold) { Object.assign(this, {policy, signal, threshold, runLength: 0}); }

  // Returns whether the next frame triggers.
  add(prob) {
    this.runLength = exceeds(this.policy, this.signal, prob, this.threshold) ? this.runLength + 1 : 0;
    return this.runLength > 0 && this.runLength % this.policy.frames_in_a_row === 0;
  }
}
