// Matched pairs: what the model wrote and the reference turn that it was matched with are judged as one event, unless the
// reviewer splits them or judged them differently.

const PARTS = ["verdict", "tags", "note"];

function isSaid(value) { return value !== null && value.length > 0; }
function isSame(one, other) { return JSON.stringify(one) === JSON.stringify(other); }

// Whether both sides of a pair can stand for one event: they say the same, or one is silent and the other was judged in
// another pair, of another run.
function agree(turn, reference, part) {
  const [one, other] = [ownOpinion(turn.key), ownOpinion(reference.key)];
  if (isSame(one[part], other[part])) return true;
  if (isSaid(one[part]) && isSaid(other[part])) return false;
  const [said, silent] = isSaid(one[part]) ? [one, reference] : [other, turn];
  const partner = said.paired_with?.[part];
  return partner !== undefined && partner !== silent.key;
}

function isJoined(turn, reference, isMatched) {
  if (review.splits.has(turn.key)) return !review.splits.get(turn.key);
  const isOnePair = isMatched || ownOpinion(turn.key).paired_with?.verdict === reference.key;
  return isOnePair && PARTS.every((part) => agree(turn, reference, part));
}

// The events to judge: a joined pair is the model's event with its reference as `pair`; the sides of a split one know each
// other as `other`. Fills `review.units`: by the key of each event the one that is judged.
function joinPairs(events) {
  const byKey = new Map(events.map((event) => [event.key, event])), replaced = new Map();
  for (const event of events) {
    const turn = event.turn === null ? null : data.turns[event.turn];
    const reference = byKey.get(turn && turn.link !== null ? data.references[turn.link].key : null);
    if (!reference) continue;
    const isMatched = turn.verdict === "matched";
    if (isJoined(event, reference, isMatched)) {
      replaced.set(event.key, { ...event, pair: reference, isMatched });
      replaced.set(reference.key, null);
    } else {
      replaced.set(event.key, { ...event, other: reference.key, isMatched });
      replaced.set(reference.key, { ...reference, other: event.key, isMatched });
    }
  }
  const units = events.map((event) => (replaced.has(event.key) ? replaced.get(event.key) : event)).filter(Boolean);
  review.units = new Map(units.flatMap((unit) => [[unit.key, unit], ...(unit.pair ? [[unit.pair.key, unit]] : [])]));
  return units;
}

// This reviewer's word on an event or, as one, on the pair that it belongs to.
function opinion(key) {
  const unit = review.units.get(key), own = ownOpinion(unit?.key ?? key);
  if (!unit?.pair) return own;
  const other = ownOpinion(unit.pair.key), said = { ...own, isWaiting: own.isWaiting || other.isWaiting };
  for (const part of PARTS) if (!isSame(own[part], other[part])) said[part] = NOTHING_SAID[part]; // of another pair
  return said;
}

// The reference turn of an event: itself, or the other side of its pair; null where there is none.
function referenceOf(event) { return event?.pair ?? (event?.kind === "reference" ? event : null); }

// How many events there are in the scope and how many have this reviewer's verdict; a matched pair counts once, judged
// when both of its sides are.
function countJudged() {
  const judged = new Map();
  for (const unit of review.events.filter(isInScope)) {
    const key = unit.other && unit.isMatched && unit.kind === "reference" ? unit.other : unit.key;
    judged.set(key, (judged.get(key) ?? true) && opinion(unit.key).verdict !== null);
  }
  return { all: judged.size, done: [...judged.values()].filter(Boolean).length };
}

function splitPair() {
  const event = currentEvent(), key = event?.pair || event?.other && event.kind !== "reference" ? event.key : event?.other;
  if (!key) return say("Only what the model wrote and its reference turn can be split or joined; nothing of a pair is selected.");
  review.splits.set(key, Boolean(event.pair));
  const time = screen.time;
  recall();
  const now = eventOf(event.pair ? event.key : key);
  select(now, time, failureOf(now));
  say(event.pair ? "Split: the model's event and its reference turn are judged separately. S joins them." : "Joined: one verdict counts for both. S splits them.");
}
