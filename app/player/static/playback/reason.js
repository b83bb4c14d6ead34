// Why the failure that is shown happened, as the diagnosis of the run found: its root, or its consequences; and the
// chip that lets N and P stop at roots only.

import { createButton, createNode, setStatus } from "../dom/dom.js";
import { drawPatches, evidenceAt, evidenceButton, evidenceParts } from "./evidence.js";
import { goToFailure } from "./selection.js";
import { reasonsOf, showsReason } from "../events/opinions.js";
import { canFail } from "../state/stops.js";
import { clockText, countText, LOW_SIMILARITY, ROOT_SIGN, STOP_SIGNS, timeOf } from "../state/data.js";
import { requestPaint } from "../timeline/chart.js";

const LATE_S = 1; // first mistakes of two runs that are at most this far apart are one, as in Batch
const MOUNT_FRAMES = 300; // of the screen, within which an unfolded panel has its button
const BLIND = "Blind: the reason is shown after your verdict.";
const COUNTED =
  "Counted are the reference turns that the change makes right, and those that it makes wrong, with the reference as " +
  "history, in the videos in which it changes something";

// The chip of the roots, beside those of the kinds.
export function drawRootsChip(player, redraw) {
  const { roots } = player.data;
  if (!roots || player.review.isBlind) return null;
  const toggle = () => {
    player.isRootsOnly = !player.isRootsOnly;
    redraw();
  };
  return createButton("ss-kind ss-roots", [`${ROOT_SIGN} ${roots.length}`, createNode("small", "", "chains")], toggle, {
    title: "Let N and P stop only at the first mistake of each chain: what follows vanishes once it is corrected",
    ariaLabel: `chains ${roots.length}: stop at first mistakes only`,
    ariaPressed: player.isRootsOnly,
  });
}

// Shows below the line of a failure why it happened, or why that is not known; null for no failure.
export function drawReason(player, failure) {
  const { data, shown } = player,
    box = player.find("why"),
    root = data.roots?.[failure?.root],
    isConsequence = failure?.is_consequence ?? false;
  const frame = failure ? (isConsequence ? failure.frame : (root?.frame ?? failure.frame)) : player.shownFrame,
    before = player.explained,
    isShown = showsReason(player, failure),
    decision = isShown ? evidenceAt(data, frame) : null,
    { isReviewing, review } = player,
    now = { data, failure, decision, isShown, isReviewing, isBlind: review.isBlind, numOwn: review.mine.size };
  Object.assign(shown, { root: isShown ? (failure?.root ?? null) : null, decision });
  drawPatches(player);
  if (before && Object.keys(now).every((name) => now[name] === before[name])) return; // what is unfolded stays so
  player.explained = now;
  box.hidden = !data.roots && !data.why_not && !data.evidence;
  box.classList.toggle("ss-evident", data.evidence !== undefined); // the line of the evidence is kept free
  requestPaint(player);
  if (!isShown) return box.replaceChildren(failure ? createNode("span", "ss-dim", BLIND) : "");
  const evidence = decision ? evidenceParts(player) : failure ? [" ", evidenceButton(player, frame) ?? ""] : [];
  if (!failure || failure.kind === LOW_SIMILARITY) return box.replaceChildren(...evidence);
  const unknown = [createNode("span", "ss-dim", data.why_not), " ", explainButton(player) ?? "", ...evidence];
  if (!root) return box.replaceChildren(...unknown);
  const reasons = reasonsOf(player, failure),
    isFirst = ({ cause }, at) => reasons.findIndex((one) => one.root.cause === cause) === at;
  const parts = reasons.flatMap((reason, at) => [
    createNode("span", "", reason.words, { title: COUNTED }),
    ...(reason.isConsequence ? [" ", rootButton(player, reason.number)] : consequencesPart(player, reason.number)),
    " ",
    otherPart(data, reason.root),
    " ",
    (isFirst(reason.root, at) && classButton(player, reason.root)) || "",
    " ",
  ]);
  box.replaceChildren(...parts, ...evidence);
}

function go(player, number) {
  goToFailure(player, number);
  player.focus();
}

function rootButton(player, number) {
  const { stops } = player.data,
    at = stops.findIndex((stop) => stop.isRoot && stop.root === number),
    words = `${ROOT_SIGN} first mistake, ${clockText(stops[at].time)}`;
  return createButton("ss-cause-of", words, () => go(player, at), {
    title: "Go to the first mistake of the chain that this belongs to",
  });
}

// The button that explains the video, as that of the panel below the scores; null where the run cannot be explained.
function explainButton(player) {
  const panel = document.querySelector("#explain"),
    { settings, data, isForeignRun } = player;
  if (!panel || settings.hint || isForeignRun || !data.why_not || data.is_blinded) return null;
  // pressed once the unfolded panel has its button
  const press = (frames) => {
    const start = panel.querySelector("#start_explain");
    if (start?.offsetParent) start.click();
    else if (frames) requestAnimationFrame(() => press(frames - 1));
  };
  const explain = () => {
    if (!panel.querySelector("#start_explain")?.offsetParent) panel.querySelector("button").click();
    press(MOUNT_FRAMES);
    setStatus(player, "Explaining this video: the panel below the scores shows its progress.");
  };
  return createButton("", "Explain", explain, { title: "Find out by experiments on this video; it takes seconds" });
}

// Whether the first mistake is one of the compared run, too; "" where that is not known.
function otherPart(data, { frame }) {
  const { other } = data,
    isKnown = other && canFail(other) && (other.roots || !other.failures.length),
    isNear = (one) => Math.abs(timeOf(other, one.frame) - timeOf(data, frame)) <= LATE_S;
  if (!isKnown) return "";
  return createNode("b", "", other.roots?.some(isNear) ? `also in ${other.letter}` : `not in ${other.letter}`);
}

// The button that searches for the first mistakes of a class in the run; null where there is no search.
function classButton(player, { cause }) {
  const { kept_run: run } = player.data,
    title = "Search for all first mistakes with this reason in the videos of the run";
  const find = () => player.trigger("find_kind", { field: "class", kind: cause, run });
  return player.settings.can_run && run && cause ? createButton("", "all with this reason", find, { title }) : null;
}

function consequencesPart(player, number) {
  const { stops } = player.data,
    found = stops
      .map((stop, at) => ({ stop, at }))
      .filter(({ stop }) => stop.root === number && stop.is_consequence && showsReason(player, stop));
  if (!found.length) return [];
  const buttons = found.map(({ stop: { kind, words, time }, at }) => {
    const text = `${clockText(time)} ${STOP_SIGNS[kind]} ${kind}`;
    return createButton("ss-consequence", text, () => go(player, at), { title: words });
  });
  const summary = createNode("summary", "", countText(found.length, "consequence"));
  return [" ", createNode("details", "ss-consequences", [summary, ...buttons])];
}
