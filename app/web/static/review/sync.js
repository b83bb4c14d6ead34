// Sends the actions of the outbox, and handles the server's replies.

import { layout } from "../timeline/chart.js";
import { find, focusedInput } from "../dom/dom.js";
import { describeAction } from "./event_words.js";
import { withTimeout } from "../state/increments.js";
import { eventTime, requestScoring } from "./layer.js";
import { currentPlace, eventByKey, isAtPlace, mergeOpinions, sideByKey } from "./opinions.js";
import { outbox } from "./outbox.js";
import { goToEvent, showFailureOfMoved } from "../playback/selection.js";
import { host, layer, review, reviewer, state } from "../state/state.js";
import { setStatus } from "../dom/status.js";

const RETRY_MS = 3000,
  REFUSED_MS = 30000,
  FRESH_MS = 2000;
let askedAt = -Infinity;

export function reviewKey({ video_id, reviewer }) {
  return JSON.stringify([video_id, reviewer]);
}
export function refusalReason(action) {
  return review.refusals.get(reviewKey(action)) ?? "";
}

// Sends waiting actions, one reviewer and video at a time, and fetches the reviews of the video that is shown. What the
// server refuses for one reviewer and video stays queued and does not block the rest.
export async function sendWaiting() {
  if (!host.settings.can_review || !host.element.isConnected) return;
  if (review.isAsking) {
    review.isAgain = true;
    return;
  }
  review.isAsking = true;
  clearTimeout(review.timer);
  try {
    do {
      review.isAgain = false;
      const waiting = outbox.all(),
        first = waiting.find((action) => !refusalReason(action));
      const [video, who] = first ? [first.video_id, first.reviewer] : [state.data?.video_id, reviewer()];
      if (video === undefined) break;
      const actions = first ? waiting.filter((action) => reviewKey(action) === reviewKey(first)).slice(0, 100) : [];
      const asked = {
        video_id: video,
        reviewer: who,
        is_blind: review.isBlind,
        reference: video === state.data?.video_id ? state.data.reference_digest : null,
        has_layer: video === state.data?.video_id ? (review.state?.layer_name ?? null) : null,
        actions: actions.map(actionPayload),
      };
      askedAt = performance.now();
      const reply = await withTimeout(host.server.ask(asked));
      if (first && reply.error) review.refusals.set(reviewKey(first), reply.error);
      review.problem = first ? "" : (reply.error ?? "");
      handleReply(video, reply);
      review.isAgain ||=
        outbox.all().some((action) => !refusalReason(action)) ||
        (first && (reply.error || video !== state.data?.video_id || who !== reviewer()));
    } while (review.isAgain && !review.problem);
  } catch {
    review.problem = "the server does not answer";
  }
  review.isAsking = false;
  const left = outbox.all();
  if (left.length && host.element.isConnected)
    review.timer = setTimeout(retryAll, left.every(refusalReason) ? REFUSED_MS : RETRY_MS);
  mergeOpinions();
}

// Fetches the reviews again, at most every two seconds: other reviewers may have judged since.
export function refreshReviews() {
  if (performance.now() - askedAt > FRESH_MS) sendWaiting();
}

// Also sends refused actions again: the reason may no longer hold.
export function retryAll() {
  review.refusals.clear();
  sendWaiting();
}

function actionPayload({ key, reviewer, video_id, event, paired, ...action }) {
  const unnamed = (named) => {
    const { key: ofEvent, ...more } = named;
    return more;
  }; // the server computes the key itself
  return { ...action, ...(event ? { event: unnamed(event) } : {}), ...(paired ? { paired: unnamed(paired) } : {}) };
}

function handleReply(video, reply) {
  review.signedIn = reply.signed_in;
  if (reply.is_blind) review.isBlind = true;
  find("blind").disabled = reply.is_blind;
  let wanted = null,
    done = null,
    changed = ""; // the event of the last change, while its place is still selected
  for (const { action_id, event, what } of reply.kept) {
    const action = outbox.all().find((waiting) => waiting.action_id === action_id),
      place = review.origins.get(action_id);
    outbox.remove(action_id);
    review.origins.delete(action_id);
    review.saved = new Date().toLocaleTimeString();
    if (video !== state.data?.video_id) continue;
    if (["undo", "redo", "correction"].includes(action?.kind) && place && isAtPlace(place))
      [wanted, done, changed] = [event, action, what];
  }
  for (const id in reply.refused) {
    const { text } = outbox.all().find((action) => action.action_id === id)?.correction ?? {};
    outbox.remove(id);
    review.origins.delete(id);
    setStatus(`Not kept${text ? `, “${text}”` : ""}: ${reply.refused[id]}`);
  }
  if (reply.state && video === state.data?.video_id) {
    const isNew = "layer" in reply.state;
    review.state = { layer: layer(), ...reply.state };
    mergeOpinions();
    if (isNew) layout();
    if (isNew) showFailureOfMoved();
    // after the reference was updated: its times are current
    if (done) setStatus(describeAction(done, sideByKey(wanted), changed));
    if (isNew && review.wantsCorrected && state.data.is_finished && !state.data.isReferenceAlone) requestScoring();
    if (wanted && !focusedInput()) showChanged(wanted);
  }
}

// Selects the changed event at its present time. Later actions of the same place wait on: theirs is the new one.
function showChanged(key) {
  const side = sideByKey(key),
    later = [...review.origins].filter(([, place]) => isAtPlace(place));
  goToEvent(eventByKey(key), side && eventTime(side));
  for (const [id] of later) review.origins.set(id, currentPlace());
}

// The save status: for each reason, the number of actions that wait.
export function savedText() {
  const counts = new Map();
  for (const action of outbox.all()) {
    const reason = refusalReason(action) ? `${action.reviewer}: ${refusalReason(action)}` : review.problem;
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  const words = [...counts].map(([reason, count]) =>
    reason ? `${count} not saved: ${reason}. Kept in this browser and sent again.` : `saving ${count}…`,
  );
  if (review.unnamed.length) words.unshift(`${review.unnamed.length} not saved yet: your name is missing.`);
  return words.join(" ") || review.problem || (review.saved ? `saved ${review.saved}` : "");
}
