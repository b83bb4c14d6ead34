// Opinions on events. A model turn and its matched reference turn are judged as one event, unless the
// reviewer splits them or judged them differently.

import { redrawPlayhead } from "../clock/playhead.js";
import { requestPaint } from "../timeline/chart.js";
import { eventTime } from "../state/layer.js";
import { stacksOf } from "../state/outbox.js";
import { canFail } from "../state/stops.js";

const SCOPES = {
  all: () => true,
  failures: ({ data }, { kind, turn, reference }) =>
    kind === "state" || (turn === null ? data.references[reference]?.is_missed : data.turns[turn].failure !== null),
  model: (_, event) => event.kind === "generated" || event.kind === "update",
  reference: (_, event) => referenceOf(event) !== null,
};

export const AVAILABLE_SCOPES = {
  all: () => true,
  failures: (player) => canFail(player.data),
  model: (player) => !player.data.isReferenceAlone,
  reference: (player) => player.data.has_reference || player.data.is_copied,
};

export function fitsVerdict(player, event, verdict) {
  return player.settings.unfit_verdicts[event?.kind] !== verdict;
}

// The parts of an opinion, each a kind of action; those that are typed are read from a text, and written as one.
export const NO_OPINION = { verdict: null, tags: [], note: "" };
export const PARTS = Object.keys(NO_OPINION);
export const TYPED_PARTS = {
  tags: { read: (text) => text.split(",").flatMap((tag) => tag.trim() || []), write: (tags) => tags.join(", ") },
  note: { read: (text) => text, write: (note) => note },
};

// Merges the store's opinions with the waiting actions of the outbox: the events, and this reviewer's opinions on them.
export function mergeOpinions(player) {
  if (!player.data) return player.drawReview();
  const added = (player.layer?.turns ?? [])
    .filter((turn) => turn.is_added)
    .map(({ key, name }) => ({ ...name, key, kind: "reference", time: name.time_s, turn: null, reference: null }));
  const events = added.length ? [...player.data.events, ...added].sort((a, b) => a.time - b.time) : player.data.events;
  player.review.mine.clear();
  player.review.finals = new Map(Object.entries(player.review.state?.finals ?? {}));
  const who = player.reviewer;
  for (const [key, said] of Object.entries(player.review.state?.opinions ?? {})) {
    const mine = said.find((opinion) => opinion.reviewer === who);
    if (mine) player.review.mine.set(key, mine);
  }
  const moves = new Map();
  const waiting = player.settings.can_review ? player.outbox.all() : [],
    { undone } = stacksOf(waiting);
  const isShown = ({ reviewer, video_id }) => reviewer === who && video_id === player.data.video_id;
  for (const action of waiting.filter((one) => isShown(one) && !undone.includes(one.action_id))) {
    const { turn: name, kind: change, time_s, end_s } = action.correction ?? {};
    if (time_s !== undefined)
      moves.set(JSON.stringify(name), { time: time_s, ...(change === "span" && { end: end_s }) });
    if (!action.event) continue;
    if (action.kind === "settle") {
      for (const event of [action.event, action.paired])
        if (event) player.review.finals.set(event.key, [action.verdict, who]);
      continue;
    }
    const given = PARTS.includes(action.kind) ? { [action.kind]: action[action.kind] ?? NO_OPINION[action.kind] } : {};
    const give = (event, other) => {
      const own = ownOpinion(player, event.key),
        { [action.kind]: _, ...paired_with } = own.paired_with ?? {};
      if (other) paired_with[action.kind] = other.key;
      player.review.mine.set(event.key, { ...own, ...given, isWaiting: true, paired_with });
    };
    give(action.event, action.paired);
    if (action.paired) give(action.paired, action.event);
  }
  player.review.events = joinPairs(player, events);
  const moved = (turn) => (moves.size ? { ...turn, ...moves.get(JSON.stringify(turn.name)) } : turn);
  player.review.turns = new Map((player.layer?.turns ?? []).map((turn) => [turn.key, moved(turn)]));
  const judge = (event) => ({ key: event.key, time: eventTime(player, event), ...opinion(player, event.key) });
  player.data.judged = player.review.events.map(judge);
  player.transcript.mark((keys) => {
    const units = new Set(keys.map((key) => eventByKey(player, key)).filter(Boolean));
    return [...units].map((unit) => opinion(player, unit.key));
  });
  redrawPlayhead(player);
  requestPaint(player);
  player.drawReview();
}

function ownOpinion(player, key) {
  return player.review.mine.get(key) ?? NO_OPINION;
}

export function resetReview(player) {
  Object.assign(player.review, { state: null, current: null, events: [], wantsCorrected: false });
  for (const name of ["units", "splits", "mine", "finals", "turns"]) player.review[name].clear();
  player.find("adding").hidden = true;
}

function isGiven(value) {
  return value !== null && value.length > 0;
}
export function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

// Whether both sides of a pair can be one event: their opinions are equal, or one has none and the other was judged in
// another pair, of another run.
function sidesAgree(player, turn, reference, part) {
  const [one, other] = [ownOpinion(player, turn.key), ownOpinion(player, reference.key)];
  if (isSame(one[part], other[part])) return true;
  if (isGiven(one[part]) && isGiven(other[part])) return false;
  const [said, silent] = isGiven(one[part]) ? [one, reference] : [other, turn];
  const partner = said.paired_with?.[part];
  return partner !== undefined && partner !== silent.key;
}

function isJoined(player, turn, reference, isMatched) {
  if (player.review.splits.has(turn.key)) return !player.review.splits.get(turn.key);
  const isOnePair = isMatched || ownOpinion(player, turn.key).paired_with?.verdict === reference.key;
  return isOnePair && PARTS.every((part) => sidesAgree(player, turn, reference, part));
}

// The events to judge: a joined pair is the model's event with its reference as `pair`; the sides of a split one know
// each other as `other`. Fills `review.units`: by the key of each event the one that is judged.
function joinPairs(player, events) {
  const byKey = new Map(events.map((event) => [event.key, event])),
    replaced = new Map();
  for (const event of events) {
    const turn = event.turn === null ? null : player.data.turns[event.turn];
    const reference = byKey.get(turn && turn.link !== null ? player.data.references[turn.link].key : null);
    if (!reference) continue;
    const isMatched = turn.verdict === "matched" || player.data.is_copied; // a turn and its copy
    if (isJoined(player, event, reference, isMatched)) {
      replaced.set(event.key, { ...event, pair: reference, isMatched });
      replaced.set(reference.key, null);
    } else {
      replaced.set(event.key, { ...event, other: reference.key, isMatched });
      replaced.set(reference.key, { ...reference, other: event.key, isMatched });
    }
  }
  const units = events.map((event) => (replaced.has(event.key) ? replaced.get(event.key) : event)).filter(Boolean);
  const keysOf = ({ key, pair }) => (pair ? [key, pair.key] : [key]);
  player.review.units = new Map(units.flatMap((unit) => keysOf(unit).map((key) => [key, unit])));
  return units;
}

// This reviewer's opinion on an event, or on its pair as one event.
export function opinion(player, key) {
  const unit = player.review.units.get(key),
    own = ownOpinion(player, unit?.key ?? key);
  if (!unit?.pair) return own;
  const other = ownOpinion(player, unit.pair.key),
    said = { ...own, isWaiting: own.isWaiting || other.isWaiting };
  for (const part of PARTS) if (!isSame(own[part], other[part])) said[part] = NO_OPINION[part]; // of another pair
  return said;
}

// Whether the reason of a failure is shown: in blind mode only after a verdict of one's own, which it could sway.
export function showsReason(player, failure) {
  return !player.review.isBlind || Boolean(failure?.key && opinion(player, failure.key).verdict);
}

// Why the failures of a stop happened: each root once as `{ number, root, isConsequence, words }`, those that began
// there first. Who steps by mistakes sees the reasons of all its signs, named where they differ.
export function reasonsOf(player, failure) {
  const { roots, mistakes } = player.data,
    stops = (!player.isReviewing && mistakes[failure.mistake]?.stops) || [failure],
    found = new Map();
  for (const stop of stops) {
    const { root: number, is_consequence: isConsequence, kind } = stop,
      key = `${isConsequence} ${number}`;
    if (!roots?.[number] || !showsReason(player, stop)) continue;
    if (!found.has(key)) found.set(key, { number, root: roots[number], isConsequence, kinds: new Set() });
    found.get(key).kinds.add(kind);
  }
  const reasons = [...found.values()].sort((a, b) => a.isConsequence - b.isConsequence);
  return reasons.map((one) => ({ ...one, words: reasonWords(one, reasons.length > 1) }));
}

function reasonWords({ root, isConsequence, kinds }, isNamed) {
  const words = isConsequence ? root.of_consequence : root.words;
  if (!isNamed) return words;
  const signs = [...kinds].map((kind) => `“${kind}”`).join(" and "),
    rest = words[0].toLowerCase() + words.slice(1),
    [has, its, follows] = kinds.size > 1 ? ["have", "their", "follow"] : ["has", "its", "follows"];
  if (!isConsequence) return `Its ${signs} ${has} a reason of ${its} own: ${rest}`;
  return rest.startsWith("follows ") ? `Its ${signs} ${follows} ${rest.slice(8)}` : `Its ${signs}: ${rest}`;
}

// The verdict that settled an event, and by whom; [null, ""] without one.
export function finalVerdict(player, key) {
  return player.review.finals.get(key) ?? [null, ""];
}

// The reference turn of an event: itself, or the other side of its pair; null where there is none.
export function referenceOf(event) {
  return event?.pair ?? (event?.kind === "reference" ? event : null);
}

// The reference turn that corrections of an event change: its own, or that of a pair that does not match or is split.
export function correctedEvent(player, event) {
  return referenceOf(event) ?? (event?.other ? eventByKey(player, event.other) : null);
}

// The numbers of events in the scope and of those with this reviewer's verdict. A matched pair counts once, as judged
// when both of its sides are.
export function countJudged(player) {
  const judged = new Map();
  for (const unit of player.review.events.filter((event) => isInScope(player, event))) {
    const key = unit.other && unit.isMatched && unit.kind === "reference" ? unit.other : unit.key;
    judged.set(key, (judged.get(key) ?? true) && opinion(player, unit.key).verdict !== null);
  }
  return { all: judged.size, done: [...judged.values()].filter(Boolean).length };
}

export function currentEvent(player) {
  return player.review.events.find((event) => event.key === player.review.current) ?? null;
}
// The selected event and the time of the video. The reply to an action selects its event only if the user has not gone
// on.
export function currentPlace(player) {
  return { key: player.review.current, time: player.video.time };
}
export function isAtPlace(player, { key, time }) {
  const isNear = Math.abs(player.video.time - time) < 0.5 / player.data.fps;
  return !player.video.isPaused || (key === player.review.current && isNear);
}
export function eventByKey(player, key) {
  return player.review.units.get(key) ?? null;
}

// The event with the key: of a pair, the reference alone or the model's event with its reference; null for none.
export function sideByKey(player, key) {
  const unit = eventByKey(player, key);
  return unit?.pair?.key === key ? unit.pair : unit;
}

export function isInScope(player, event) {
  return SCOPES[player.review.scope](player, event);
}
