// What reviewers did, kept in this browser until the store has it: a closed laptop or a dead server loses nothing.

const OUTBOX = "stepscope:outbox:", RETRY_MS = 3000, REFUSED_MS = 30000;

class Outbox {
  constructor() {
    this.count = 0;
    this.memory = new Map(); // where the browser forbids storage: until the window is closed
  }

  get storage() {
    try { return window.localStorage; } catch { return null; }
  }

  put(action) {
    const order = `${String(Date.now()).padStart(15, "0")}-${String(this.count++).padStart(6, "0")}`;
    const key = `${OUTBOX}${order}-${action.action_id}`, text = JSON.stringify(action);
    try { this.storage.setItem(key, text); } catch { this.memory.set(key, text); } // no storage, or no room in it
  }

  get keys() {
    const stored = this.storage ? Object.keys(this.storage).filter((key) => key.startsWith(OUTBOX)) : [];
    return [...new Set([...stored, ...this.memory.keys()])].sort();
  }

  // All that waits, oldest first; what is not ours, or damaged, is left alone.
  all() {
    return this.keys.flatMap((key) => {
      try {
        const action = JSON.parse(this.memory.get(key) ?? this.storage.getItem(key));
        return [action?.action_id, action?.video_id, action?.reviewer].every((name) => typeof name === "string") ? [{ ...action, key }] : [];
      } catch { return []; }
    });
  }

  remove(actionId) {
    for (const { key, action_id } of this.all()) {
      if (action_id !== actionId) continue;
      this.memory.delete(key);
      this.storage?.removeItem(key);
    }
  }
}

function newName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function remembered(name, fallback = "") {
  try { return localStorage.getItem(`stepscope:${name}`) ?? fallback; } catch { return fallback; }
}

function remember(name, value) {
  try { localStorage.setItem(`stepscope:${name}`, value); } catch { say("This browser forbids storage: names are forgotten when the window is closed."); }
}

function pairOf({ video_id, reviewer }) { return JSON.stringify([video_id, reviewer]); }
function refusal(action) { return review.refusals.get(pairOf(action)) ?? ""; }

// Sends what waits, one reviewer and video at a time, and hears what is said of the video that is shown. What the server
// refuses of one reviewer and video waits, and holds up nothing of the others.
async function send() {
  if (!props.can_review) return;
  if (review.isAsking) { review.isAgain = true; return; }
  review.isAsking = true;
  clearTimeout(review.timer);
  try {
    do {
      review.isAgain = false;
      const waiting = outbox.all(), first = waiting.find((action) => !refusal(action));
      const [video, who] = first ? [first.video_id, first.reviewer] : [data?.video_id, reviewer()];
      if (video === undefined) break;
      const actions = first ? waiting.filter((action) => pairOf(action) === pairOf(first)).slice(0, 100) : [];
      const asked = { video_id: video, reviewer: who, is_blind: review.isBlind, reference: video === data?.video_id ? data.reference_digest : null, has_layer: video === data?.video_id ? review.state?.layer_name ?? null : null, actions: actions.map(toSend) };
      const reply = await inTime(server.ask(asked));
      if (first && reply.error) review.refusals.set(pairOf(first), reply.error);
      review.problem = first ? "" : reply.error ?? "";
      hear(video, reply);
      review.isAgain ||= outbox.all().some((action) => !refusal(action)) || first && (reply.error || video !== data?.video_id || who !== reviewer());
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
function sendAll() {
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
    if (!["undo", "redo", "correction"].includes(done?.kind) || video !== data?.video_id) continue;
    told = [done, event];
    review.wanted = event;
  }
  for (const id in reply.refused) {
    outbox.remove(id);
    say(`Not kept: ${reply.refused[id]}`);
  }
  if (reply.state && video === data?.video_id) {
    const isNew = "layer" in reply.state;
    review.state = { layer: layer(), ...reply.state };
    recall();
    if (isNew) layOut(); else askPaint();
    if (told) say(keptWords(...told));
    if (isNew && review.wantsCorrected && data.is_finished) judgeAgainst();
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
function savedWords() {
  const counts = new Map();
  for (const action of outbox.all()) {
    const reason = refusal(action) ? `${action.reviewer}: ${refusal(action)}` : review.problem;
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  const words = [...counts].map(([reason, count]) => (reason ? `${count} not saved: ${reason}. Kept in this browser and sent again.` : `saving ${count}…`));
  return words.join(" ") || review.problem || (review.saved ? `saved ${review.saved}` : "");
}
