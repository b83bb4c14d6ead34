// The panel of the moment at the playhead. Texts enter as textContent only.

import {
  assistantState,
  bandsOf,
  causeMeanings,
  clockText,
  countText,
  countUpTo,
  forgottenText,
  gapText,
  gridFrame,
  modelTimeText,
  probText,
  signOfTurn,
  stateAt,
  thresholdText,
  thresholdWords,
  timeOf,
} from "../state/data.js";
import { createNode, createQuote, showTurns } from "../dom/dom.js";
import { highestNear, highestText, inspectionButton } from "./inspection.js";
import { drawDifference } from "./differences.js";
import { LOW_SIMILARITY, momentText, signOfKind } from "../playback/stops.js";
import { conditionText, exceeds, hasSignal, signOf } from "../state/policy.js";
import { hasDecided } from "../state/preview.js";
import { hasValues, visibleSignals } from "../state/signals.js";
import { gradeText, legalityTag } from "./transcript.js";

const WRONG_TEXT = "wrong text";

export function drawNowPanel(player, panel, data, frame, time, failure) {
  const parts = [],
    hasRun = data.times.length > 0;
  if (!hasRun) frame = Math.min(gridFrame(data, time), data.expected_frames - 1);
  if (failure) parts.push(failureCard(player, data, failure, Math.abs(time - failure.time) < 0.5 / data.fps));
  const head = createNode("p", "ss-line");
  const total = hasRun ? data.times.length + data.num_dropped : data.expected_frames,
    isUnknown = !hasRun && player.settings.hint; // a live session has no length
  head.append(
    createNode("b", "", clockText(time)),
    ` frame ${frame + data.num_dropped}${isUnknown ? "" : ` of ${total}`}`,
    ...inspectionButton(player),
  );
  if (data.isReferenceAlone) head.append(createNode("span", "ss-tag", "reference alone, no run"));
  const cut = data.forgotten[countUpTo(data.forgotten, frame, (found) => found.frame) - 1],
    isCut = cut?.frame === frame;
  if (countUpTo(data.refreshed, frame) > countUpTo(data.refreshed, frame - 1))
    head.append(createNode("span", "ss-tag", isCut ? `↻ ${forgottenText(cut)}` : "↻ refreshed"));
  parts.push(head);
  if (isCut && cut.summary !== null) parts.push(createQuote("summary", cut.summary || "(empty)"));
  if (data.times.length) {
    const gap = gapText(data, frame),
      heads = gap ? [] : visibleSignals(data).map(({ name }) => name);
    if (gap) parts.push(createNode("p", "ss-line", `no decision: ${gap}`));
    if (heads.includes("speak")) parts.push(decisionLine(player, data, "speak", frame));
    parts.push(...responseLines(data, frame, time, failure));
    if (heads.includes("update")) parts.push(decisionLine(player, data, "update", frame));
    parts.push(...updateLines(data, frame), ...signalLines(player, data, frame));
  }
  if (data.steps.length) parts.push(...stateParts(data, frame));
  if (data.times.length) {
    const gone = cut && !isCut ? `; at ${clockText(timeOf(data, cut.frame))} ${forgottenText(cut)}` : "";
    const context = data.cache[frame]
      ? `${countText(data.cache[frame], "token")} in the context`
      : "length of the context not known";
    const warning = data.is_untrained ? "; the signals are untrained" : "";
    parts.push(createNode("p", "ss-dim", `${context}, ${modelTimeText(data.latency[frame])}${gone}${warning}`));
  }
  panel.replaceChildren(...parts);
}

// `isHere`: whether the playhead is at the failure. A turn that was moved is selected at its new time.
function failureCard(player, data, failure, isHere) {
  const box = createNode("div", failure.kind === LOW_SIMILARITY ? "ss-failure ss-low" : "ss-failure");
  box.append(createNode("b", "", `${signOfKind(failure.kind)} ${failure.kind}`));
  const moment = momentText(player, failure) || (isHere ? "" : `at ${clockText(failure.time)}`);
  if (moment) box.append(createNode("span", "ss-tag ss-moment", moment));
  if (failure.words) box.append(` ${showTurns(failure.words)}`);
  if (failure.kind === WRONG_TEXT) box.append(...wrongTextLines(data, data.turns[failure.turn]));
  if (failure.cause) box.append(causeLine(player, failure.cause));
  const highest = highestNear(data, failure);
  if (highest) box.append(createNode("span", "ss-highest", highestText(highest, data, isHere)));
  return box;
}

// The response and its reference, with the words marked in which they differ.
function wrongTextLines(data, turn) {
  const texts = drawDifference(["said", turn.text], ["reference", data.references[turn.link].text]);
  return [...texts, createNode("p", "ss-dim", `matching cost ${turn.cost.toFixed(2)}, ${delayText(turn.delay)}`)];
}

// A cause of difficulty from the manifest, explained; a split may define its own.
function causeLine(player, cause) {
  const meanings = causeMeanings(player),
    meaning = Object.hasOwn(meanings, cause) ? meanings[cause] : "as the split's manifest names it",
    box = createNode("span", "ss-cause"),
    tag = createNode("span", "ss-tag", cause);
  box.append("cause ", tag, " ", showTurns(meaning));
  box.title = "Why this moment is hard: the split's manifest names the cause beside a reference turn.";
  return box;
}

const DECIDED_WORDS = { speak: ["silent", "spoke"], update: ["no update", "updated"] };
const PREVIEWED_WORDS = { speak: ["would be silent", "would speak"], update: ["no update", "would update"] };

function decisionLine(player, data, name, frame) {
  const prob = data[name][frame],
    threshold = (player.shown.isPreview ? player.shown : data).thresholds[name];
  const row = createNode("p", "ss-line ss-decision"),
    word = createNode(
      "b",
      "",
      (player.shown.isPreview ? PREVIEWED_WORDS : DECIDED_WORDS)[name][Number(hasDecided(player, data, name, frame))],
    );
  if (!hasValues(data, name)) {
    row.append(createNode("span", "ss-name", name), word, createNode("span", "ss-dim", "probability not known"));
    return row;
  }
  const bar = createNode("span", `ss-prob ss-${name}`);
  const fill = createNode("i"),
    mark = createNode("u");
  const isKnown = !Number.isNaN(prob);
  fill.style.width = `${isKnown ? 100 * prob : 0}%`;
  mark.style.left = `${100 * threshold}%`;
  bar.append(fill, ...(isKnown ? [mark] : []));
  bar.title = `${data.policy.name}: ${conditionText(data.policy, thresholdWords(data.policy, threshold))}`;
  const sign = signOf(data.policy, exceeds(data.policy, name, prob, threshold));
  const known = isKnown
    ? `${probText(prob, threshold)} ${sign} ${thresholdWords(data.policy, threshold)}`
    : "not known";
  const comparison = hasSignal(data.policy, name) ? known : "";
  row.append(createNode("span", "ss-name", name), bar, createNode("span", "", comparison), word);
  return row;
}

// The named signals at a frame, each with its threshold, and the state of the assistant.
function signalLines(player, data, frame) {
  const state = assistantState(data, frame),
    isShown = state && gapText(data, frame) === null;
  const words = data.named.map(({ name, title, series, policy, decides, hasThreshold }) => {
    const threshold = player.shown.thresholds[name];
    const value = data[series][frame],
      number = Number.isNaN(value) ? "not known" : probText(value, hasThreshold ? threshold : 0);
    if (!hasThreshold || Number.isNaN(value)) return [title, number, ""];
    const isAbove = exceeds(policy, decides ?? "speak", value, threshold);
    return [
      title,
      `${number} ${signOf(policy, isAbove)} ${thresholdText(threshold)}`,
      isAbove && decides ? decides : "",
    ];
  });
  return [...(isShown ? [["state", state, ""]] : []), ...words].map(([title, text, word]) => {
    const line = createNode("p", "ss-line ss-signal");
    line.append(
      createNode("span", words.length ? "ss-signal-name" : "ss-name", title),
      createNode("span", "", text),
      createNode("b", "", word),
    );
    return line;
  });
}

function responseLines(data, frame, time, failure) {
  const number = countUpTo(data.responses, time + 1e-4, (turn) => turn.time) - 1;
  const lines = [];
  const inCard = failure?.kind === WRONG_TEXT ? data.turns[failure.turn] : null; // it has both texts
  if (number >= 0 && data.responses[number] !== inCard) {
    const turn = data.responses[number],
      isNow = turn.frame === frame;
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
  const words = {
    matched: "matched",
    mismatched: "other words",
    redundant: `${turn.failure ?? "redundant"}: no reference near`,
  }[turn.verdict];
  const box = createNode("p", `ss-judged ss-${turn.verdict}`);
  box.append(createNode("b", "", `${signOfTurn(turn)} ${words}`));
  if (turn.score !== null)
    box.append(` similarity ${turn.score.toFixed(2)}, cost ${turn.cost.toFixed(2)}, ${delayText(turn.delay)}`);
  const parts = document.createDocumentFragment();
  parts.append(box);
  if (turn.grade !== undefined) parts.append(createNode("p", "ss-line ss-grade", `judged ${gradeText(data, turn)}`));
  if (turn.link !== null) parts.append(createQuote("reference", data.references[turn.link].text));
  return parts;
}

function delayText(delay) {
  if (!delay) return "on time";
  return `${Math.abs(delay).toFixed(1)} s ${delay < 0 ? "early" : "late"}`;
}

function updateLines(data, frame) {
  const [first, end] = [frame - 1, frame].map((last) => countUpTo(data.turns, last, (turn) => turn.frame));
  return data.turns
    .slice(first, end)
    .filter((turn) => turn.role === "update")
    .map((turn) => {
      const box = createNode("p", `ss-text ss-judged ss-${turn.verdict ?? "plain"}`);
      box.append(createNode("b", "", turn.text));
      if (turn.legality !== "legal") box.append(legalityTag(turn));
      if (turn.verdict === "matched") box.append(` ${signOfTurn(turn)} as the reference, ${delayText(turn.delay)}`);
      if (turn.verdict === "mismatched")
        box.append(" ◇ reference ", createNode("b", "", data.references[turn.link].text), `, ${delayText(turn.delay)}`);
      if (turn.verdict === "redundant") box.append(" ◇ no reference near");
      return box;
    });
}

// The states of the steps: of the run, else of the reference, which a line then names.
function stateParts(data, frame) {
  const table = bandsOf(data).length ? [stateTable(data, frame)] : [];
  if (data.has_states || data.isReferenceAlone) return table;
  const note = `states of the steps not known${data.has_reference ? "; in the reference:" : ""}`;
  return [createNode("p", "ss-dim", note), ...table];
}

function stateTable(data, frame) {
  const table = createNode("table", "ss-states");
  const body = table.createTBody();
  data.steps.forEach((step, number) => {
    const band = data.bands[bandsOf(data).at(-1)][number] ?? [];
    const [before, after] = [stateAt(band, frame - 1), stateAt(band, frame)];
    const wanted = stateAt(data.bands.reference[number] ?? [], frame);
    const isChanged = before !== after,
      isWrong = wanted !== null && after !== wanted;
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
