// Why the failure that is shown happened, as the diagnosis of the run found: its root, or its consequences; and the
// chip that lets N and P stop at roots only.

import { createButton, createNode, setStatus } from "../dom/dom.js";
import { drawPatches, evidenceAt, evidenceButton, evidenceParts } from "./evidence.js";
import { goToFailure } from "./selection.js";
import { stopText } from "../state/stops.js";
import { clockText, countText, LOW_SIMILARITY, ROOT_SIGN, STOP_SIGNS } from "../state/data.js";
import { requestPaint } from "../timeline/chart.js";

const COUNTED =
  "Counted are the reference turns that the change makes right, and those that it makes wrong, with the reference as " +
  "history, in the videos in which it changes something";

// The chip of the roots, beside those of the kinds.
export function drawRootsChip(player, redraw) {
  const { roots } = player.data;
  if (!roots) return null;
  const toggle = () => {
    player.isRootsOnly = !player.isRootsOnly;
    redraw();
  };
  return createButton("ss-kind ss-roots", [`${ROOT_SIGN} ${roots.length}`, createNode("small", "", "roots")], toggle, {
    title: "Let N and P stop at roots only: the moments that were corrected, one for all that fails there",
    ariaLabel: `roots ${roots.length}: stop at roots only`,
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
    decision = evidenceAt(data, frame);
  Object.assign(shown, { root: failure?.root ?? null, decision });
  drawPatches(player);
  const isSame = before?.failure === failure && before.data === data && before.decision === decision;
  if (isSame) return; // what is unfolded stays so
  player.explained = { data, failure, decision };
  box.hidden = !data.roots && !data.why_not && !data.evidence;
  box.classList.toggle("ss-evident", data.evidence !== undefined); // the line of the evidence is kept free
  requestPaint(player);
  const evidence = decision ? evidenceParts(player) : failure ? [" ", evidenceButton(player, frame) ?? ""] : [];
  if (!failure || failure.kind === LOW_SIMILARITY) return box.replaceChildren(...evidence);
  if (!root) return box.replaceChildren(createNode("span", "ss-dim", data.why_not), ...evidence);
  const parts = [createNode("span", "", isConsequence ? root.of_consequence : root.words, { title: COUNTED })];
  if (isConsequence) parts.push(" ", rootButton(player, failure.root));
  else parts.push(...consequencesPart(player, failure.root));
  box.replaceChildren(...parts, ...evidence);
}

function go(player, number) {
  goToFailure(player, number);
  setStatus(player, stopText(player, player.data.stops[number]), true);
  player.focus();
}

function rootButton(player, number) {
  const { stops } = player.data,
    at = stops.findIndex((stop) => stop.isRoot && stop.root === number),
    words = `${ROOT_SIGN} its root, ${clockText(stops[at].time)}`;
  return createButton("ss-cause-of", words, () => go(player, at), { title: "Go to the root of this failure" });
}

function consequencesPart(player, number) {
  const { stops } = player.data,
    found = stops.map((stop, at) => ({ stop, at })).filter(({ stop }) => stop.root === number && stop.is_consequence);
  if (!found.length) return [];
  const buttons = found.map(({ stop: { kind, words, time }, at }) => {
    const text = `${clockText(time)} ${STOP_SIGNS[kind]} ${kind}`;
    return createButton("ss-consequence", text, () => go(player, at), { title: words });
  });
  const summary = createNode("summary", "", countText(found.length, "consequence"));
  return [" ", createNode("details", "ss-consequences", [summary, ...buttons])];
}
