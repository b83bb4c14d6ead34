// Interprets the decision policy of a run or of a signal, an entry of engine/decisions/policies.toml in the payload, as
// engine/decisions/policies.py does. tests/data/policies.json holds cases that both must decide alike.

const COMPARISONS = {
  ">": { exceeds: (prob, threshold) => prob > threshold, signs: ["≤", ">"] },
  ">=": { exceeds: (prob, threshold) => prob >= threshold, signs: ["<", "≥"] },
  "> or 1": { exceeds: (prob, threshold) => prob > threshold || (prob >= 1 && threshold <= 1), signs: ["≤", ">"] },
};
const LEVELS = { value: "", sum: "sum ", drop: "drop ", rise: "rise " };

// Whether the policy decides on a signal: "speak", or "update".
export function hasSignal(policy, signal) {
  return signal === "speak" || policy.has_updates;
}

export function exceeds(policy, signal, prob, threshold) {
  return hasSignal(policy, signal) && COMPARISONS[policy.comparison].exceeds(prob, threshold);
}

// Whether the rule compares the probability of a silent token with theta; the threshold is 1 - theta.
export function hasTheta(policy) {
  return policy.source === "silent-token" || policy.source === "most-likely-token";
}

// The theta of a speak threshold, or the speak threshold of a theta: to 12 digits, so that 0.725 gives 0.275 and back.
export function convertTheta(value) {
  return Number((1 - value).toFixed(12));
}

// The sign between a probability and its threshold, by whether the probability exceeds it.
export function signOf(policy, isAbove) {
  return COMPARISONS[policy.comparison].signs[Number(isAbove)];
}

// The condition of a decision, such as "> 0.50", "sum > 2.00" or "≥ 0.50, 2 in a row", from the threshold as text.
export function conditionText(policy, threshold) {
  const count = policy.frames_in_a_row;
  const always = Number.isFinite(policy.always_from) ? ` or ≥ ${policy.always_from.toFixed(2)}` : "";
  return (
    `${LEVELS[policy.level ?? "value"]}${signOf(policy, true)} ${threshold}${always}` +
    `${count > 1 ? `, ${count} in a row` : ""}`
  );
}

// Decides one signal frame by frame. The count restarts after each trigger, and so does a sum.
export class TriggerCounter {
  // `level` is the number that was last compared with the threshold.
  constructor(policy, signal, threshold) {
    Object.assign(this, { policy, signal, threshold, runLength: 0, kept: NaN, level: NaN });
  }

  // Returns whether the next frame triggers.
  add(prob) {
    const { policy, signal, threshold } = this;
    this.level = this.levelOf(prob);
    const isAlways = hasSignal(policy, signal) && prob >= (policy.always_from ?? Infinity);
    this.runLength = isAlways || exceeds(policy, signal, this.level, threshold) ? this.runLength + 1 : 0;
    const isTrigger = this.runLength > 0 && this.runLength % policy.frames_in_a_row === 0;
    if (isTrigger && policy.level === "sum") this.kept = 0;
    return isTrigger;
  }

  levelOf(value) {
    const before = this.kept;
    if (this.policy.level === "drop") {
      this.kept = value;
      return before - value;
    }
    if (this.policy.level === "rise") {
      this.kept = value;
      return value - before;
    }
    if (this.policy.level === "sum" && !Number.isNaN(value))
      return (this.kept = value + (Number.isNaN(before) ? 0 : before));
    return value;
  }
}
