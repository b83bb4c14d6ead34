// Sends what waits in the outbox, and takes what the server answers.

import { askPaint, layOut } from "./chart.js";
import { find, typedBox } from "./dom.js";
import { correctionWords, nameOfEvent } from "./event_words.js";
import { inTime } from "./increments.js";
import { judgeAgainst } from "./layer.js";
import { eventOf, recall, timeOfKey } from "./opinions.js";
import { outbox } from "./outbox.js";
import { goToEvent } from "./selection.js";
import { host, layer, listeners, review, reviewer, state } from "./state.js";
import { say } from "./status.js";

const RETRY_MS = 3000, REFUSED_MS = 30000;

export function pairOf({ video_id, reviewer }) { return JSON.stringify([video_id, reviewer]); }
export function refusal(action) { return review.refusals.get(pairOf(action)) ?? ""; }

// Sends what waits, one reviewer and video at a time, and hears what is said of the video that is shown. What the server
// refuses of one reviewer and video waits, and holds up nothing of the others.
export async function send() {
  if (!host.props.can_review) return;
  if (review.isAsking) { review.isAgain = true; return; }
  review.isAsking = true;
  clearTimeout(review.timer);
  try {
    do {
      review.isAgain = false;
      const waiting = outbox.all(), first = waiting.find((action) => !refusal(action));
      const [video, who] = first ? [first.video_id, first.reviewer] : [state.data?.video_id, reviewer()];
      if (video === undefined) break;
      const actions = first ? waiting.filter((action) => pairOf(action) === pairOf(first)).slice(0, 100) : [];
      const asked = { video_id: video, reviewer: who, is_blind: review.isBlind, reference: video === state.data?.video_id ? state.data.reference_digest : null, has_layer: video === state.data?.video_id ? review.state?.layer_name ?? null : null, actions: actions.map(toSend) };
      const reply = await inTime(host.server.ask(asked));
      if (first && reply.error) review.refusals.set(pairOf(first), reply.error);
      review.problem = first ? "" : reply.error ?? "";
      hear(video, reply);
      review.isAgain ||= outbox.all().some((action) => !refusal(action)) || first && (reply.error || video !== state.data?.video_id || who !== reviewer());
    } while (review.isAgain && !review.problem);
  } catch {
    review.problem = "the server does not answer";
  }
  review.isAsking = false;
  const left = outbox.all();
  if (left.length && !listeners.signal.aborted) review.timer = setTimeout(sendAll, left.every(refusal) ? REFUSED_MS : RETRY_MS);
  recall();
}

// Sends what was refused too: the reason may be gone.
export function sendAll() {
  review.refusals.clear();
  send();
}

function toSend({ key, reviewer, video_id, event, paired, ...action }) {
  const unnamed = (named) => { const { key: ofEvent, ...more } = named; return more; }; // the server names it itself
  return { ...action, ...(event ? { event: unnamed(event) } : {}), ...(paired ? { paired: unnamed(paired) } : {}) };
}

function hear(video, reply) {
  review.signedIn = reply.signed_in;
  if (reply.is_blind) review.isBlind = true;
  find("blind").disabled = reply.is_blind;
  let told = null;
  for (const { action_id, event } of reply.kept) {
    const done = outbox.all().find((action) => action.action_id === action_id);
    outbox.remove(action_id);
    review.saved = new Date().toLocaleTimeString();
    if (!["undo", "redo", "correction"].includes(done?.kind) || video !== state.data?.video_id) continue;
    told = [done, event];
    review.wanted = event;
  }
  for (const id in reply.refused) {
    outbox.remove(id);
    say(`Not kept: ${reply.refused[id]}`);
  }
  if (reply.state && video === state.data?.video_id) {
    const isNew = "layer" in reply.state;
    review.state = { layer: layer(), ...reply.state };
    recall();
    if (isNew) layOut(); else askPaint();
    if (told) say(keptWords(...told));
    if (isNew && review.wantsCorrected && state.data.is_finished) judgeAgainst();
    if (review.wanted && !typedBox()) goToEvent(eventOf(review.wanted), timeOfKey(review.wanted));
    review.wanted = null;
  }
}

// What was kept, in words, once the reference is as it is now: a time that is named holds.
function keptWords({ kind, correction }, event) {
  if (correction) return correctionWords(correction);
  const about = eventOf(event), done = kind === "undo" ? "Taken back" : "Brought back";
  return about ? `${done}: your last action on ${nameOfEvent(about)}.` : `${done}.`;
}

// What became of it, in words: of each reason how much waits for it.
export function savedWords() {
  const counts = new Map();
  for (const action of outbox.all()) {
    const reason = refusal(action) ? `${action.reviewer}: ${refusal(action)}` : review.problem;
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  const words = [...counts].map(([reason, count]) => (reason ? `${count} not saved: ${reason}. Kept in this browser and sent again.` : `saving ${count}…`));
  return words.join(" ") || review.problem || (review.saved ? `saved ${review.saved}` : "");
}
