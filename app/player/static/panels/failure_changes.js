// The failures that another run of the video, or another judgement of the run, has fixed, broken or changed in kind.

import { eventByKey } from "../events/opinions.js";
import { clockText, countText, STOP_SIGNS, thresholdWords } from "../state/data.js";
import { createButton, createNode } from "../dom/dom.js";
import { goToEvent, goToFailure } from "../playback/selection.js";
import { hasSignal } from "../state/policy.js";
import { DECISIONS } from "../state/signals.js";
import { PICTURE_S, seek } from "../clock/playhead.js";
import { canFail } from "../state/stops.js";

const WORDS = { fixed: "fixed", broken: "broken", changed: "changed kind", same: "unchanged" };

// Pairs the failures of two judgements: those of one reference turn, of one turn at a frame, or of the same wrong
// states. Where one run was stopped, those after its end are left out. Returns records {verb, before, after} in the
// order of time; `after` is null for a fixed failure, `before` for a broken one.
export function compareFailures(before, after) {
  const end = commonEnd(before, after),
    [failed, later] = [before, after].map(({ failures }) => failures.filter(({ time }) => end === null || time <= end)),
    left = new Set(later),
    records = [];
  const pairs = [
    (one, other) => identify(before, one) === identify(after, other) && one.kind === other.kind,
    (one, other) => one.reference !== null && keyOfReference(before, one) === keyOfReference(after, other),
    (one, other) => one.frame === other.frame && roleOf(before, one) === roleOf(after, other),
    (one, other) =>
      [one, other].every(({ kind, words }) => kind === "wrong state" && words === one.words) &&
      one.frame < other.end &&
      other.frame < one.end,
  ];
  let open = failed;
  for (const isPair of pairs) {
    open = open.filter((one) => {
      const other = [...left].find((candidate) => isPair(one, candidate));
      if (!other) return true;
      left.delete(other);
      records.push({ verb: one.kind === other.kind ? "same" : "changed", before: one, after: other });
      return false;
    });
  }
  records.push(
    ...open.map((one) => ({ verb: "fixed", before: one, after: null })),
    ...[...left].map((other) => ({ verb: "broken", before: null, after: other })),
  );
  return records.sort((a, b) => (a.after ?? a.before).time - (b.after ?? b.before).time);
}

// The end of the shorter run, in seconds; null for two of one length.
function commonEnd(before, after) {
  return before.times.length === after.times.length ? null : Math.min(before.reached, after.reached);
}

function keyOfReference(data, { reference }) {
  return data.references[reference]?.key ?? reference;
}

function roleOf(data, { turn, reference }) {
  return turn !== null ? data.turns[turn].role : reference !== null ? data.references[reference].role : "state";
}

function identify(data, failure) {
  const place = failure.reference === null ? failure.frame : `reference ${keyOfReference(data, failure)}`;
  return `${roleOf(data, failure)} ${place} ${failure.kind === "wrong state" ? failure.words : ""}`;
}

// Shows the difference after a run with other thresholds, or another judgement; removes it for another video or task.
export function showChanges(player, next) {
  const panel = player.find("changes");
  // it still streams
  if (next && (!next.events.length || !next.is_judged) && next.video_id === player.judgedRun?.video_id) return;
  const before = next?.branch ? next.other : player.judgedRun; // a branch is compared with the run below it
  player.judgedRun = next && canFail(next) ? next : null;
  if (before === next) return;
  const isComparable =
    player.judgedRun &&
    before &&
    (next.branch ? ["video_id"] : ["video_id", "model", "task"]).every(
      (name) => JSON.stringify(before[name]) === JSON.stringify(next[name]),
    );
  const isOpened = next?.kept_run && next.kept_run !== before?.kept_run; // another run was opened, and none compared
  const end = isComparable ? commonEnd(before, next) : null,
    changes = isComparable && !isOpened ? changeWords(before, next) : "",
    words = changes && end !== null ? `${changes}, up to ${clockText(end)}` : changes;
  panel.hidden = !words;
  if (words) panel.replaceChildren(...drawChanges(player, words, before, next));
  else panel.replaceChildren();
}

// What differs between two runs, in words; "" if only their place on the page does.
function changeWords(before, next) {
  if (next.branch) return next.branch.name;
  const moved = DECISIONS.filter(
    (name) => hasSignal(next.policy, name) && before.thresholds[name] !== next.thresholds[name],
  );
  const wordsOf = ({ policy, thresholds }, name) => thresholdWords(policy, thresholds[name]);
  const describe = (name) => `${name} ${wordsOf(before, name)} → ${wordsOf(next, name)}`;
  if (moved.length) return moved.map(describe).join(", ");
  const isOther = before.run === next.run && compareFailures(before, next).some(({ verb }) => verb !== "same");
  return isOther ? "scored again" : "";
}

function drawChanges(player, words, before, next) {
  const records = compareFailures(before, next),
    of = (verb) => records.filter((record) => record.verb === verb),
    draw = (listed) => listed.map((record) => drawChange(player, record, record.after ? next : before)),
    same = of("same");
  const counts = Object.keys(WORDS).map((verb) => `${of(verb).length} ${WORDS[verb]}`);
  const hide = () => {
    player.find("changes").hidden = true;
  };
  const head = createNode("p", "ss-line ss-changed-counts", [
    createNode("b", "", `${words}: ${counts.join(", ")}`),
    createButton("", "hide", hide),
  ]);
  const folded =
    same.length > 0 &&
    createNode("details", "", [createNode("summary", "", countText(same.length, "unchanged failure")), ...draw(same)]);
  return [head, createNode("div", "ss-change-list", [...draw(records.filter(({ verb }) => verb !== "same")), folded])];
}

// `data` is the run of the failure, or of the one that it became.
function drawChange(player, { verb, before, after }, data) {
  const found = after ?? before,
    kinds = verb === "changed" ? [before, after] : [found],
    { act, states } = (!player.isReviewing && data.mistakes[found.mistake]) || {},
    told = act || states || found.words;
  const kind = kinds.map((failure) => `${STOP_SIGNS[failure.kind]} ${failure.kind}`).join(" → ");
  const words = ` ${clockText(found.time)} ${kind}${told ? `: ${told}` : ""}`;
  return createButton(`ss-change ss-${verb}`, [createNode("b", "", WORDS[verb]), words], () =>
    goToChange(player, before, after),
  );
}

// Goes to the failure, or to the turn that no longer is one.
function goToChange(player, before, after) {
  const number = after ? player.data.stops.indexOf(after) : -1,
    event = eventByKey(player, (after ?? before).key);
  if (number >= 0) goToFailure(player, number);
  else if (event) goToEvent(player, event);
  else seek(player, (after ?? before).time + PICTURE_S);
}
