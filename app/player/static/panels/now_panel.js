// The panel of the moment at the playhead. Texts enter as textContent only.

import { bandsOf, CAUSES, clockText, countUpTo, gridFrame, modelTimeText, probText, stateAt, thresholdText } from "../state/data.js";
import { createNode, createQuote } from "../dom/dom.js";
import { highestNear, highestText, inspectionButton } from "./inspection.js";
import { LOW_SIMILARITY, signOfKind } from "../playback/stops.js";
import { conditionText, exceeds, hasSignal, signOf } from "../state/policy.js";
import { legalityTag } from "./transcript.js";

export function drawNowPanel(panel, data, frame, time, failure) {
  const parts = [], hasRun = data.times.length > 0;
  if (!hasRun) frame = Math.min(gridFrame(data, time), data.expected_frames - 1);
  if (failure) parts.push(failureLine(data, failure));
  const head = createNode("p", "ss-line");
  head.append(createNode("b", "", clockText(time)), ` frame ${frame} of ${hasRun ? data.times.length : data.expected_frames}`, ...inspectionButton());
  if (data.isReferenceAlone) head.append(createNode("span", "ss-tag", "reference alone, no run"));
  if (countUpTo(data.refreshed, frame) > countUpTo(data.refreshed, frame - 1)) head.append(createNode("span", "ss-tag", "↻ refreshed"));
  parts.push(head);
  if (data.times.length) {
    parts.push(decisionLine(data, "speak", frame), ...responseLines(data, frame, time));
    parts.push(decisionLine(data, "update", frame), ...updateLines(data, frame));
  }
  if (data.steps.length) parts.push(stateTable(data, frame));
  if (data.times.length) {
    const cost = `${data.cache[frame]} tokens in the context, ${modelTimeText(data.latency[frame])}`;
    parts.push(createNode("p", "ss-dim", cost));
  }
  panel.replaceChildren(...parts);
}

function failureLine(data, failure) {
  const box = createNode("p", failure.kind === LOW_SIMILARITY ? "ss-failure ss-low" : "ss-failure");
  box.append(createNode("b", "", `${signOfKind(failure.kind)} ${failure.kind}`));
  if (failure.words) box.append(` ${failure.words}`);
  if (failure.cause) box.append(causeLine(failure.cause));
  const highest = highestNear(data, failure);
  if (highest) box.append(createNode("span", "ss-highest", highestText(highest, data)));
  return box;
}

// A cause of difficulty from the manifest, explained; a split may define its own.
function causeLine(cause) {
  const box = createNode("span", "ss-cause"), tag = createNode("span", "ss-tag", cause);
  box.append("cause ", tag, " ", Object.hasOwn(CAUSES, cause) ? CAUSES[cause] : "as the split's manifest names it");
  box.title = "Why this turn is hard: the split's manifest names the cause beside the reference turn.";
  return box;
}

function decisionLine(data, name, frame) {
  const prob = data[name][frame], threshold = data.thresholds[name];
  const row = createNode("p", "ss-line ss-decision");
  const bar = createNode("span", `ss-prob ss-${name}`);
  const fill = createNode("i"), mark = createNode("u");
  fill.style.width = `${100 * prob}%`;
  mark.style.left = `${100 * threshold}%`;
  bar.append(fill, mark);
  const did = countUpTo(data.decided[name], frame) > countUpTo(data.decided[name], frame - 1);
  const words = { speak: ["silent", "spoke"], update: ["no update", "updated"] }[name];
  bar.title = `${data.policy.name}: ${conditionText(data.policy, thresholdText(threshold))}`;
  const sign = signOf(data.policy, exceeds(data.policy, name, prob, threshold));
  const comparison = hasSignal(data.policy, name) ? `${probText(prob, threshold)} ${sign} ${thresholdText(threshold)}` : "";
  row.append(createNode("span", "ss-name", name), bar, createNode("span", "", comparison), createNode("b", "", words[Number(did)]));
  return row;
}

function responseLines(data, frame, time) {
  const number = countUpTo(data.responses, time + 1e-4, (turn) => turn.time) - 1;
  const lines = [];
  if (number >= 0) {
    const turn = data.responses[number], isNow = turn.frame === frame;
    const said = createNode("p", isNow ? "ss-text" : "ss-text ss-dim", turn.text);
    if (!isNow) said.prepend(createNode("span", "ss-tag", `${(time - turn.time).toFixed(1)} s ago`));
    lines.push(said);
    if (isNow && turn.verdict) lines.push(matchLines(data, turn));
  }
  const wanted = data.referenceTurns.find((turn) => turn.is_missed && turn.frame === frame);
  if (wanted) lines.push(createQuote("reference, missed", wanted.text));
  const asked = data.userTurns.find((turn) => turn.frame === frame);
  if (asked) lines.unshift(createQuote("user", asked.text));
  return lines;
}

function matchLines(data, turn) {
  const words = { matched: "✓ matched", mismatched: "≠ other words", redundant: "+ redundant: no reference near" }[turn.verdict];
  const box = createNode("p", `ss-judged ss-${turn.verdict}`);
  box.append(createNode("b", "", words));
  if (turn.score !== null) box.append(` similarity ${turn.score.toFixed(2)}, cost ${turn.cost.toFixed(2)}, ${delayText(turn.delay)}`);
  const parts = document.createDocumentFragment();
  parts.append(box);
  if (turn.link !== null) parts.append(createQuote("reference", data.references[turn.link].text));
  return parts;
}

function delayText(delay) {
  if (!delay) return "on time";
  return `${Math.abs(delay).toFixed(1)} s ${delay < 0 ? "early" : "late"}`;
}

function updateLines(data, frame) {
  const [first, end] = [frame - 1, frame].map((last) => countUpTo(data.turns, last, (turn) => turn.frame));
  return data.turns.slice(first, end).filter((turn) => turn.role === "update").map((turn) => {
    const box = createNode("p", `ss-text ss-judged ss-${turn.verdict ?? "plain"}`);
    box.append(createNode("b", "", turn.text));
    if (turn.legality !== "legal") box.append(legalityTag(turn));
    if (turn.verdict === "matched") box.append(` ✓ ${delayText(turn.delay)}`);
    if (turn.verdict === "mismatched") box.append(" ◇ reference ", createNode("b", "", data.references[turn.link].text), `, ${delayText(turn.delay)}`);
    if (turn.verdict === "redundant") box.append(" ◇ no reference near");
    return box;
  });
}

function stateTable(data, frame) {
  const table = createNode("table", "ss-states");
  const body = table.createTBody();
  data.steps.forEach((step, number) => {
    const band = data.bands[bandsOf(data).at(-1)][number] ?? [];
    const [before, after] = [stateAt(band, frame - 1), stateAt(band, frame)];
    const wanted = stateAt(data.bands.reference[number] ?? [], frame);
    const isChanged = before !== after, isWrong = wanted !== null && after !== wanted;
    const words = data.state_words[after] ?? "";
    const change = isChanged ? `${data.state_words[before].slice(0, 1)} → ${words}` : words;
    const row = createNode("tr");
    row.append(createNode("td", "", `${step.id} ${step.name}`), createNode("td", "", change));
    const reference = createNode("td", "", isWrong ? `≠ ref. ${data.state_words[wanted].slice(0, 1)}` : "");
    if (isWrong) reference.title = `reference: ${data.state_words[wanted]}`;
    row.append(reference);
    row.classList.toggle("ss-changed", isChanged);
    row.classList.toggle("ss-wrong", isWrong);
    body.append(row);
  });
  return table;
}
