// What is at the playhead, beside the video. Texts enter as textContent alone.

import { bandsOf, CAUSES, clockText, countUpTo, gridFrame, modelTime, probText, stateAt, thresholdText } from "./data.js";
import { node, quoted } from "./dom.js";
import { highestNear, highestWords, inspectionButton } from "./inspection.js";
import { LOW, signOf } from "./stops.js";
import { legalityTag } from "./transcript.js";

export function drawNow(panel, data, frame, time, failure) {
  const parts = [], hasRun = data.times.length > 0;
  if (!hasRun) frame = Math.min(gridFrame(data, time), data.expected_frames - 1);
  if (failure) parts.push(failureLine(data, failure));
  const head = node("p", "ss-line");
  head.append(node("b", "", clockText(time)), ` frame ${frame} of ${hasRun ? data.times.length : data.expected_frames}`, ...inspectionButton());
  if (data.isReferenceAlone) head.append(node("span", "ss-tag", "reference alone, no run"));
  if (countUpTo(data.refreshed, frame) > countUpTo(data.refreshed, frame - 1)) head.append(node("span", "ss-tag", "↻ refreshed"));
  parts.push(head);
  if (data.times.length) {
    parts.push(decisionLine(data, "speak", frame), ...saidLines(data, frame, time));
    parts.push(decisionLine(data, "update", frame), ...updateLines(data, frame));
  }
  if (data.steps.length) parts.push(stateTable(data, frame));
  if (data.times.length) {
    const cost = `${data.cache[frame]} tokens in the context, ${modelTime(data.latency[frame])}`;
    parts.push(node("p", "ss-dim", cost));
  }
  panel.replaceChildren(...parts);
}

function failureLine(data, failure) {
  const box = node("p", failure.kind === LOW ? "ss-failure ss-low" : "ss-failure");
  box.append(node("b", "", `${signOf(failure.kind)} ${failure.kind}`));
  if (failure.words) box.append(` ${failure.words}`);
  if (failure.cause) box.append(causeLine(failure.cause));
  const highest = highestNear(data, failure);
  if (highest) box.append(node("span", "ss-highest", highestWords(highest, data)));
  return box;
}

// A cause of the manifest, in plain words; a split may name others.
function causeLine(cause) {
  const box = node("span", "ss-cause"), tag = node("span", "ss-tag", cause);
  box.append("cause ", tag, " ", Object.hasOwn(CAUSES, cause) ? CAUSES[cause] : "as the split's manifest names it");
  box.title = "Why this turn is hard: the split's manifest names the cause beside the reference turn.";
  return box;
}

function decisionLine(data, name, frame) {
  const prob = data[name][frame], threshold = data.thresholds[name];
  const row = node("p", "ss-line ss-decision");
  const bar = node("span", `ss-prob ss-${name}`);
  const fill = node("i"), mark = node("u");
  fill.style.width = `${100 * prob}%`;
  mark.style.left = `${100 * threshold}%`;
  bar.append(fill, mark);
  const did = countUpTo(data.decided[name], frame) > countUpTo(data.decided[name], frame - 1);
  const words = { speak: ["silent", "spoke"], update: ["no update", "updated"] }[name];
  bar.title = `threshold ${thresholdText(threshold)}`;
  row.append(node("span", "ss-name", name), bar, node("span", "", `${probText(prob, threshold)} ${did ? ">" : "≤"} ${thresholdText(threshold)}`), node("b", "", words[Number(did)]));
  return row;
}

function saidLines(data, frame, time) {
  const number = countUpTo(data.said, time + 1e-4, (turn) => turn.time) - 1;
  const lines = [];
  if (number >= 0) {
    const turn = data.said[number], isNow = turn.frame === frame;
    const said = node("p", isNow ? "ss-text" : "ss-text ss-dim", turn.text);
    if (!isNow) said.prepend(node("span", "ss-tag", `${(time - turn.time).toFixed(1)} s ago`));
    lines.push(said);
    if (isNow && turn.verdict) lines.push(judgement(data, turn));
  }
  const wanted = data.wanted.find((turn) => turn.is_missed && turn.frame === frame);
  if (wanted) lines.push(quoted("reference, missed", wanted.text));
  const asked = data.asked.find((turn) => turn.frame === frame);
  if (asked) lines.unshift(quoted("user", asked.text));
  return lines;
}

function judgement(data, turn) {
  const words = { matched: "✓ matched", mismatched: "≠ other words", redundant: "+ redundant: no reference near" }[turn.verdict];
  const box = node("p", `ss-judged ss-${turn.verdict}`);
  box.append(node("b", "", words));
  if (turn.score !== null) box.append(` similarity ${turn.score.toFixed(2)}, cost ${turn.cost.toFixed(2)}, ${delayWords(turn.delay)}`);
  const parts = document.createDocumentFragment();
  parts.append(box);
  if (turn.link !== null) parts.append(quoted("reference", data.references[turn.link].text));
  return parts;
}

function delayWords(delay) {
  if (!delay) return "on time";
  return `${Math.abs(delay).toFixed(1)} s ${delay < 0 ? "early" : "late"}`;
}

function updateLines(data, frame) {
  const [first, end] = [frame - 1, frame].map((last) => countUpTo(data.turns, last, (turn) => turn.frame));
  return data.turns.slice(first, end).filter((turn) => turn.role === "update").map((turn) => {
    const box = node("p", `ss-text ss-judged ss-${turn.verdict ?? "plain"}`);
    box.append(node("b", "", turn.text));
    if (turn.legality !== "legal") box.append(legalityTag(turn));
    if (turn.verdict === "matched") box.append(` ✓ ${delayWords(turn.delay)}`);
    if (turn.verdict === "mismatched") box.append(" ◇ reference ", node("b", "", data.references[turn.link].text), `, ${delayWords(turn.delay)}`);
    if (turn.verdict === "redundant") box.append(" ◇ no reference near");
    return box;
  });
}

function stateTable(data, frame) {
  const table = node("table", "ss-states");
  const body = table.createTBody();
  data.steps.forEach((step, number) => {
    const band = data.bands[bandsOf(data).at(-1)][number] ?? [];
    const [before, after] = [stateAt(band, frame - 1), stateAt(band, frame)];
    const wanted = stateAt(data.bands.reference[number] ?? [], frame);
    const isChanged = before !== after, isWrong = wanted !== null && after !== wanted;
    const words = data.state_words[after] ?? "";
    const change = isChanged ? `${data.state_words[before].slice(0, 1)} → ${words}` : words;
    const row = node("tr");
    row.append(node("td", "", `${step.id} ${step.name}`), node("td", "", change));
    const reference = node("td", "", isWrong ? `≠ ref. ${data.state_words[wanted].slice(0, 1)}` : "");
    if (isWrong) reference.title = `reference: ${data.state_words[wanted]}`;
    row.append(reference);
    row.classList.toggle("ss-changed", isChanged);
    row.classList.toggle("ss-wrong", isWrong);
    body.append(row);
  });
  return table;
}
