// Interprets the decision policy of a run or of a signal, an entry of engine/decisions/policies.toml in the payload, as
// engine/decisions/policies.py does. tests/data/policies.json holds cases that both must decide alike.

const COMPARISONS = {
  ">": { exceeds: (prob, threshold) => prob > threshold, signs: ["≤", ">"] },
  ">=": { exceeds: (prob, threshold) => prob >= threshold, signs: ["<", "≥"] },
  "> or 1": { exceeds: (prob, threshold) => prob > threshold || (prob >= 1 && threshold <= 1), signs: ["≤", ">"] },
};

// Whether the policy decides on a signal: "speak", or "update".
export function hasSignal(policy, signal) {
  return signal === "speak" || policy.has_updates;
}

export function exceeds(policy, signal, prob, threshold) {
  return hasSignal(policy, signal) && COMPARISONS[policy.comparison].exceeds(prob, threshold);
}

// Whether the rule compares the probability of silence with theta; the threshold is 1 - theta.
export function hasTheta(policy) {
  return ["silent-token", "most-likely-token", "reserved-text", "most-likely-text"].includes(policy.source);
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
  const { frames_in_a_row: count, refractory_s: refractory } = policy;
  const always = Number.isFinite(policy.always_from) ? ` or ≥ ${policy.always_from.toFixed(2)}` : "";
  return (
    `${kindOf(policy).words(policy)}${signOf(policy, true)} ${threshold}${always}` +
    `${count > 1 ? `, ${count} in a row` : ""}${refractory ? `, ${refractory} s apart` : ""}`
  );
}

// The number of frames after which `seconds` have passed, at least 1.
const countFrames = (seconds, fps) => Math.max(1, Math.ceil(seconds * fps - 1e-9));

// Decides one signal frame by frame, by the value of each frame. Each other kind of rule is a subclass. The count of
// frames in a row restarts after each trigger.
export class TriggerCounter {
  static words = () => ""; // those before the sign of a condition
  static range = null; // of the numbers that are compared, from that of the values; null where they are the values
  isArmed = true; // whether a frame that exceeds the threshold counts
  level = NaN; // the number that was last compared with the threshold
  runLength = 0;
  framesToWait = 0;

  constructor(policy, signal, threshold, fps) {
    Object.assign(this, { policy, signal, threshold });
    this.refractoryFrames = policy.refractory_s ? countFrames(policy.refractory_s, fps) : 0;
  }

  // Returns whether the next frame triggers.
  add(prob) {
    const { policy, signal, threshold } = this;
    this.level = this.measure(prob);
    const isAlways = hasSignal(policy, signal) && prob >= (policy.always_from ?? Infinity);
    const isAbove = isAlways || exceeds(policy, signal, this.level, threshold);
    this.runLength = this.isArmed && isAbove ? this.runLength + 1 : 0;
    this.framesToWait -= 1;
    if (this.runLength < policy.frames_in_a_row || this.framesToWait > 0) return false;
    this.runLength = 0;
    this.framesToWait = this.refractoryFrames;
    this.followTrigger();
    return true;
  }

  measure(value) {
    return value;
  }

  followTrigger() {}
}

class Sum extends TriggerCounter {
  static words = ({ level }) => `${level} `;
  static range = () => ({ low: 0, high: Infinity });
  total = 0;

  measure(value) {
    return Number.isNaN(value) ? value : (this.total += value);
  }

  followTrigger() {
    this.total = 0;
  }
}

class Rise extends TriggerCounter {
  static words = ({ level }) => `${level} `;
  static range = (low, high) => ({ low: low - high, high: high - low });
  before = NaN;
  sign = 1;

  measure(value) {
    const { before } = this;
    this.before = value;
    return this.sign * (value - before);
  }
}

class Drop extends Rise {
  sign = -1;
}

class Surge extends Rise {
  static words = ({ over_s }) => `rise in ${over_s} s `;
  total = 0;
  numOlder = 0;

  constructor(policy, signal, threshold, fps) {
    super(policy, signal, threshold, fps);
    this.recent = Array.from({ length: countFrames(policy.over_s, fps) }, () => NaN);
  }

  measure(value) {
    const before = this.recent.shift();
    this.recent.push(value);
    if (!Number.isNaN(before)) {
      this.total += before;
      this.numOlder += 1;
    }
    const rise = value - before;
    return Number.isNaN(rise) || value > this.total / this.numOlder ? rise : Math.min(rise, 0);
  }
}

class Hysteresis extends TriggerCounter {
  measure(value) {
    this.isArmed ||= value <= this.threshold - 0.5 * Math.abs(this.threshold);
    return value;
  }

  followTrigger() {
    this.isArmed = false;
  }
}

const RULES = { value: TriggerCounter, sum: Sum, drop: Drop, rise: Rise, surge: Surge, hysteresis: Hysteresis };

export const kindOf = ({ level }) => RULES[level ?? "value"];

export const countTriggers = (policy, signal, threshold, fps) =>
  new RULES[policy.level ?? "value"](policy, signal, threshold, fps);
