// Sends the actions of the outbox, and handles the server's replies.

import { layout } from "../timeline/chart.js";
import { draftKey, focusedInput, setStatus } from "../dom/dom.js";
import { conflictText, describeAction, describeEvent } from "../events/event_words.js";
import { withTimeout } from "../state/increments.js";
import { eventTime, requestScoring, scoreIfWanted } from "../state/layer.js";
import {
  currentEvent,
  currentPlace,
  eventByKey,
  isAtPlace,
  isSame,
  mergeOpinions,
  sideByKey,
  TYPED_PARTS,
} from "../events/opinions.js";
import { goToEvent, showFailureOfMoved } from "../playback/selection.js";

const RETRY_MS = 3000,
  REFUSED_MS = 30000,
  FRESH_MS = 2000,
  NEWS_MS = 5000; // who reviews sees within this time what others changed

export function reviewKey({ video_id, reviewer }) {
  return JSON.stringify([video_id, reviewer]);
}
export function refusalReason(player, action) {
  return player.review.refusals.get(reviewKey(action)) ?? "";
}

// Sends waiting actions, one reviewer and video at a time, and fetches the reviews of the video that is shown. What the
// server refuses for one reviewer and video stays queued and does not block the rest.
export async function sendWaiting(player) {
  if (!player.settings.can_review || !player.element.isConnected) return;
  if (player.review.isAsking) {
    player.review.isAgain = true;
    return;
  }
  player.review.isAsking = true;
  clearTimeout(player.review.timer);
  const { problem } = player.review;
  let isChanged = false;
  try {
    do {
      player.review.isAgain = false;
      const waiting = player.outbox.all(),
        first = waiting.find((action) => !refusalReason(player, action));
      const [video, who] = first ? [first.video_id, first.reviewer] : [player.data?.video_id, player.reviewer];
      if (video === undefined) break;
      const actions = first ? waiting.filter((action) => reviewKey(action) === reviewKey(first)).slice(0, 100) : [];
      const isShown = video === player.data?.video_id;
      const asked = {
        video_id: video,
        reviewer: who,
        is_blind: player.review.isBlind,
        reference: isShown ? player.data.reference_digest : null,
        has_layer: isShown ? (player.review.state?.layer_name ?? null) : null,
        actions: actions.map(actionPayload),
      };
      player.review.askedAt = performance.now();
      const reply = await withTimeout(player.server.ask(asked));
      if (first && reply.error) player.review.refusals.set(reviewKey(first), reply.error);
      player.review.problem = first ? "" : (reply.error ?? "");
      if (handleReply(player, video, reply)) isChanged = true;
      player.review.isAgain ||=
        player.outbox.all().some((action) => !refusalReason(player, action)) ||
        (first && (reply.error || video !== player.data?.video_id || who !== player.reviewer));
    } while (player.review.isAgain && !player.review.problem);
  } catch {
    player.review.problem = "the server does not answer";
  }
  player.review.isAsking = false;
  const left = player.outbox.all(),
    isRefused = left.every((action) => refusalReason(player, action));
  if (player.element.isConnected)
    player.review.timer = left.length
      ? setTimeout(retryAll, isRefused ? REFUSED_MS : RETRY_MS, player)
      : setTimeout(fetchNews, NEWS_MS, player);
  if (isChanged || player.review.problem !== problem) mergeOpinions(player);
}

// Fetches what other reviewers did, while this one reviews.
function fetchNews(player) {
  if (player.isReviewing && !document.hidden) return sendWaiting(player);
  player.review.timer = setTimeout(fetchNews, NEWS_MS, player);
}

// Fetches the reviews again, at most every two seconds: other reviewers may have judged since.
export function refreshReviews(player) {
  if (performance.now() - player.review.askedAt > FRESH_MS) sendWaiting(player);
}

// Also sends refused actions again: the reason may no longer hold.
export function retryAll(player) {
  player.review.refusals.clear();
  sendWaiting(player);
}

// The action as the server gets it, which computes the keys of events itself.
function actionPayload({ key, reviewer, video_id, event, paired, ...action }) {
  const unnamed = ({ key: ofEvent, ...named }) => named;
  return { ...action, ...(event && { event: unnamed(event) }), ...(paired && { paired: unnamed(paired) }) };
}

// Returns whether a reply has an answer to an action, or reviews that the page did not have.
function handleReply(player, video, reply) {
  const known = [player.review.signedIn, player.review.isBlind];
  player.review.signedIn = reply.signed_in;
  if (reply.is_blind) player.review.isBlind = true;
  player.find("blind").disabled = reply.is_blind;
  let isJudged = false,
    wanted = null,
    done = null,
    gone = null,
    changed = ""; // the event of the last change, while its place is still selected
  for (const { action_id, event, what } of reply.kept) {
    const action = player.outbox.remove(action_id),
      place = player.review.origins.get(action_id);
    player.review.origins.delete(action_id);
    player.review.saved = "saved";
    isJudged ||= action?.kind === "verdict";
    if (video !== player.data?.video_id) continue;
    if (["undo", "redo", "correction"].includes(action?.kind) && place && isAtPlace(player, place))
      [wanted, done, gone, changed] = [event, action, sideByKey(player, event), what];
  }
  for (const id in reply.refused) {
    const action = player.outbox.remove(id),
      place = player.review.origins.get(id),
      { kind, turn, text = kind === "add" ? turn.text : "" } = action?.correction ?? {};
    player.review.origins.delete(id);
    setStatus(player, `Not kept${text ? `, “${text}”` : ""}: ${reply.refused[id]}`);
    if (action && video === player.data?.video_id) returnText(player, action, place && isAtPlace(player, place));
  }
  const isAnswer = reply.kept.length + Object.keys(reply.refused).length > 0,
    isKnown = isSame(known, [player.review.signedIn, player.review.isBlind]);
  if (!reply.state || video !== player.data?.video_id) return isAnswer || !isKnown;
  const isNew = "layer" in reply.state,
    before = player.review.state,
    state = { layer: player.layer, ...reply.state };
  // a redraw takes the focus from a button of the panel
  if (!isAnswer && !isNew && isKnown && isSame({ ...state, layer: 0 }, { ...before, layer: 0 })) return false;
  player.review.state = state;
  mergeOpinions(player);
  if (isNew) {
    layout(player);
    showFailureOfMoved(player);
    scoreIfWanted(player);
  }
  // a blind page sends the reason of a failure after its verdict
  if (player.data.is_blinded && (isNew || isJudged)) requestScoring(player);
  // after the reference was updated: its times are current
  if (done) setStatus(player, describeAction(player, done, sideByKey(player, wanted) ?? gone, changed));
  else if (isNew) reportContradicted(player, before?.layer?.conflicts);
  if (wanted && !focusedInput(player)) showChanged(player, wanted);
  return true;
}

// Says that another reviewer contradicts a correction of this one.
function reportContradicted(player, known) {
  const isNew = ({ key, aspect, wishes }) =>
    `, ${wishes}`.includes(`, ${player.reviewer}: `) &&
    known.every((conflict) => conflict.key !== key || conflict.aspect !== aspect);
  const conflict = known && player.layer?.conflicts.find(isNew);
  if (!conflict) return;
  const turn = describeEvent(player, sideByKey(player, conflict.key));
  setStatus(player, `Your correction of the ${turn} does not apply. ${conflictText(conflict)}`);
}

// Gives a text that was refused back to its input, and opens that if the user has not gone on.
function returnText(player, { kind, event, correction, ...given }, isHere) {
  const turn = player.layer?.turns.find(({ name }) => isSame(name, correction?.turn));
  const [name, key, text] = correction
    ? correction.kind === "add"
      ? ["addedText", undefined, correction.turn.text]
      : ["edited", turn?.key, correction.text]
    : [kind, event?.key, TYPED_PARTS[kind]?.write(given[kind])];
  if (!text) return;
  const box = player.find(name);
  if (name !== "addedText") player.review.drafts.set(draftKey(box, key), text);
  if (!isHere || !player.video.isPaused || box.dataset.event !== key || focusedInput(player)) return;
  if (name === "addedText") player.find("adding").hidden = false;
  box.value = text;
  box.focus();
}

// Selects the changed event at its present time; the model's event stays selected if its reference was changed. Later
// actions of the same place wait on: theirs is the new one.
function showChanged(player, key) {
  const side = sideByKey(player, key),
    selected = currentEvent(player),
    event = selected?.other === key && selected.turn !== null ? selected : eventByKey(player, key),
    later = [...player.review.origins].filter(([, place]) => isAtPlace(player, place));
  goToEvent(player, event, side && eventTime(player, side));
  for (const [id] of later) player.review.origins.set(id, currentPlace(player));
}

// The save status: for each reason, the number of actions that wait.
export function savedText(player) {
  const { problem, saved, unnamed } = player.review,
    counts = new Map();
  for (const action of player.outbox.all()) {
    const refusal = refusalReason(player, action),
      reason = refusal ? `${action.reviewer}: ${refusal}` : problem;
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  const words = [...counts].map(([reason, count]) =>
    reason ? `${count} not saved: ${reason}. Kept in this browser and sent again.` : `saving ${count}…`,
  );
  if (unnamed.length) words.unshift(`${unnamed.length} not saved yet: your name is missing.`);
  return words.join(" ") || problem || saved;
}
