// The panel of the moment at the playhead. Texts enter as textContent only.

import {
  assistantState,
  bandsOf,
  clockText,
  countText,
  countUpTo,
  drawnVerdict,
  forgottenText,
  gapText,
  gridFrame,
  LOW_SIMILARITY,
  modelTimeText,
  comparedText,
  probText,
  signOfTurn,
  stateAt,
  HIDDEN_ROOT,
  STOP_SIGNS,
  thresholdText,
  thresholdWords,
  timeOf,
} from "../state/data.js";
import { createButton, createNode, createQuote, showTurns } from "../dom/dom.js";
import { lastChange } from "../lanes/steps.js";
import { highestNear, highestText, inspectionButton } from "./inspection.js";
import { conditionText, exceeds, hasSignal, signOf } from "../state/policy.js";
import { reasonsOf } from "../events/opinions.js";
import { sentenceOf } from "../state/stops.js";
import { goToFailure } from "../playback/selection.js";
import { hasDecided } from "../state/thresholds.js";
import { hasValues, visibleSignals } from "../state/signals.js";
import { createUpdate, gradeText, legalityTag } from "./transcript.js";

const FEW_STEPS = 4; // more are folded
const NUM_NEAR = 3; // steps that stay, with their neighbours
const SHOULD = "should have said";
const OTHER_WORDS = ["wrong text", LOW_SIMILARITY]; // the card of such a stop compares the two texts

export function drawNowPanel(player, panel, data, frame, time, failure) {
  const hasRun = data.times.length > 0;
  if (!hasRun) frame = Math.min(gridFrame(data, time), data.expected_frames - 1);
  const total = hasRun ? data.times.length + data.num_dropped : data.expected_frames,
    isUnknown = !hasRun && player.settings.hint; // a live session has no length
  const cut = data.forgotten[countUpTo(data.forgotten, frame, (found) => found.frame) - 1],
    isCut = cut?.frame === frame,
    isRefreshed = countUpTo(data.refreshed, frame) > countUpTo(data.refreshed, frame - 1);
  const parts = [
    failure && mistakeCard(player, data, failure, Math.abs(time - failure.time) < 0.5 / data.fps),
    createNode("p", `ss-line${failure && !isRefreshed ? " ss-detail" : ""}`, [
      createNode("b", "", clockText(time)),
      detail(` frame ${frame + data.num_dropped + 1}${isUnknown ? "" : ` of ${total}`}`),
      inspectionButton(player),
      data.isReferenceAlone && createNode("span", "ss-tag", "reference alone, no run"),
      isRefreshed && createNode("span", "ss-tag", isCut ? `↻ ${forgottenText(cut)}` : "↻ refreshed"),
    ]),
    isCut && cut.summary !== null && createQuote("summary", cut.summary || "(empty)"),
  ];
  if (hasRun) {
    const gap = gapText(data, frame),
      heads = gap ? [] : visibleSignals(data).map(({ name }) => name);
    parts.push(
      gap && createNode("p", "ss-line", `no decision: ${gap}`),
      heads.includes("speak") && decisionLine(player, data, "speak", frame),
      ...responseLines(data, frame, time, failure),
      reasoningPart(player, data, frame),
      heads.includes("update") && decisionLine(player, data, "update", frame),
      ...updateLines(data, frame),
      ...signalLines(player, data, frame),
    );
  }
  if (data.steps.length) parts.push(...stateParts(player, data, frame));
  if (hasRun) {
    const gone = cut && !isCut ? `; at ${clockText(timeOf(data, cut.frame))} ${forgottenText(cut)}` : "";
    const context = data.cache[frame]
      ? `${countText(data.cache[frame], "token")} in the context`
      : "length of the context not known";
    const warning = data.is_untrained ? "; the signals are untrained" : "";
    parts.push(
      createNode("p", "ss-dim ss-detail", `${context}, ${modelTimeText(data.latency[frame])}${gone}${warning}`),
    );
  }
  panel.replaceChildren(...parts.filter(Boolean));
}

// What happened, in a sentence, completed by its reason if that is known; its failures are folded below. `isHere`:
// whether the playhead is at the failure. A turn that was moved is selected at its new time.
function mistakeCard(player, data, failure, isHere) {
  const highest = highestNear(data, failure),
    mistake = data.mistakes[failure.mistake],
    reasons = failure.kind === HIDDEN_ROOT ? [] : reasonsOf(player, failure);
  return createNode("div", failure.kind === LOW_SIMILARITY ? "ss-failure ss-low" : "ss-failure", [
    createNode("p", "ss-sentence", [
      createNode("b", "", clockText(failure.time)),
      ` ${sentenceOf(player, failure)}`,
      mistake?.act && ` ${mistake.states}`,
    ]),
    OTHER_WORDS.includes(failure.kind) &&
      createNode("div", mistake ? "ss-detail" : "", otherWordsLines(data, data.turns[failure.turn])),
    ...reasons.map(({ words }) => createNode("p", "ss-reason", words)),
    mistake && signsPart(player, mistake.stops, failure),
    failure.cause && detail(["cause ", createNode("span", "ss-tag", failure.cause)]),
    highest && detail([createNode("span", "ss-highest", highestText(highest, data, isHere))]),
  ]);
}

// The failures of a mistake, folded until they are opened once: each goes to its own.
function signsPart(player, stops, shown) {
  const buttons = stops.map((stop) => {
    const { kind, words, time } = stop,
      text = [
        createNode("b", "", `${STOP_SIGNS[kind]} ${kind}`),
        ` ${words}`,
        time !== shown.time && ` ${clockText(time)}`,
      ];
    const onclick = () => goToFailure(player, player.data.stops.indexOf(stop));
    return createButton("ss-one-failure", text, onclick, { ariaPressed: stop === shown });
  });
  const parts = [createNode("summary", "", countText(stops.length, "sign")), ...buttons],
    ontoggle = ({ target }) => (player.isUnfolded = target.open);
  return createNode("details", "ss-signs-of", parts, { open: player.isUnfolded || player.isDetailed, ontoggle });
}

// What is shown only with *details*.
function detail(content) {
  return createNode("span", "ss-detail", content);
}

// The response and its reference, with the words marked in which they differ.
function otherWordsLines(data, turn) {
  const texts = drawDifference([
    ["said", turn.text],
    [SHOULD, data.references[turn.link].text],
  ]);
  return [
    ...texts,
    createNode("p", "ss-dim ss-detail", `matching cost ${turn.cost.toFixed(2)}, ${delayText(turn.delay)}`),
  ];
}

const DECIDED_WORDS = { speak: ["silent", "spoke"], update: ["no update", "updated"] };
const PREVIEWED_WORDS = { speak: ["would be silent", "would speak"], update: ["no update", "would update"] };

function decisionLine(player, data, name, frame) {
  const { policy } = data,
    prob = data[name][frame],
    isKnown = !Number.isNaN(prob),
    threshold = (player.shown.isPreview ? player.shown : data).thresholds[name];
  const words = player.shown.isPreview ? PREVIEWED_WORDS : DECIDED_WORDS,
    word = createNode("b", "", words[name][Number(hasDecided(player, data, name, frame))]),
    label = createNode("span", "ss-name", name),
    line = (...parts) => createNode("p", "ss-line ss-decision", [label, ...parts, word]);
  if (!hasValues(data, name)) return line(createNode("span", "ss-dim", "probability not known"));
  const fill = createNode("i"),
    mark = createNode("u");
  fill.style.width = `${isKnown ? 100 * prob : 0}%`;
  mark.style.left = `${100 * threshold}%`;
  const condition = conditionText(policy, thresholdWords(policy, threshold)),
    title = threshold === undefined ? "threshold not known" : `${policy.name}: ${condition}`,
    parts = [fill, isKnown && threshold !== undefined && mark],
    bar = createNode("span", `ss-prob ss-${name}`, parts, { title });
  return line(
    bar,
    createNode("span", "ss-detail", hasSignal(policy, name) && comparedText(policy, name, prob, threshold)),
  );
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
    return [title, `${number} ${signOf(policy, isAbove)} ${thresholdText(threshold)}`, isAbove && decides];
  });
  return [...(isShown ? [["state", state, ""]] : []), ...words].map(([title, text, word]) =>
    createNode("p", "ss-line ss-signal", [
      createNode("span", words.length ? "ss-signal-name" : "ss-name", title),
      createNode("span", "", text),
      createNode("b", "", word),
    ]),
  );
}

function responseLines(data, frame, time, failure) {
  const turn = data.responses[countUpTo(data.responses, time + 1e-4, (response) => response.time) - 1],
    asked = data.userTurns.find((other) => other.frame === frame),
    wanted = data.referenceTurns.find((other) => other.is_missed && other.frame === frame);
  const lines = asked ? [createQuote("user", asked.text)] : [];
  const inCard = OTHER_WORDS.includes(failure?.kind) && turn === data.turns[failure.turn]; // it has both texts
  if (turn && !inCard && turn.frame === frame) {
    lines.push(createNode("p", "ss-text", turn.text));
    if (turn.verdict) lines.push(...matchLines(data, turn));
  } else if (turn && !inCard) {
    const ago = createNode("span", "ss-tag", `${(time - turn.time).toFixed(1)} s ago`);
    lines.push(createNode("p", "ss-text ss-dim", [ago, turn.text]));
  }
  if (wanted) lines.push(createQuote(SHOULD, wanted.text));
  return lines;
}

// The reasoning of a served model before its answer, folded until it is opened once.
function reasoningPart(player, data, frame) {
  const found = data.reasoning?.find((part) => part.frame === frame);
  if (!found) return null;
  const size = found.num_tokens === null ? "" : `, ${countText(found.num_tokens, "token")}`,
    took = found.latency_ms === null ? "" : `, ${(found.latency_ms / 1000).toFixed(1)} s with the answer`;
  const parts = [
    createNode("summary", "", `reasoning${size}${took}`),
    createNode("p", "ss-text ss-dim", found.text || "kept back by the server"),
  ];
  const ontoggle = ({ target }) => (player.isReasoningOpen = target.open);
  return createNode("details", "ss-reasoning", parts, { open: player.isReasoningOpen, ontoggle });
}

function matchLines(data, turn) {
  const reason = turn.is_lost ? "a pair of cost 0 is lost (zero_cost drop)" : "it should have been silent";
  const words = {
    matched: turn.is_low ? LOW_SIMILARITY : "matched",
    mismatched: "wrong text",
    redundant: `${turn.failure ?? "redundant"}: ${reason}`,
  }[turn.verdict];
  return [
    createNode("p", `ss-judged ss-${drawnVerdict(turn)}`, [
      createNode("b", "", [detail(`${signOfTurn(turn)} `), words]),
      turn.score !== null && detail(` similarity ${turn.score.toFixed(2)}, cost ${turn.cost.toFixed(2)},`),
      turn.score !== null && ` ${delayText(turn.delay)}`,
    ]),
    turn.grade !== undefined && createNode("p", "ss-line ss-grade", `judged ${gradeText(data, turn)}`),
    turn.link !== null && createQuote(SHOULD, data.references[turn.link].text),
  ].filter(Boolean);
}

function delayText(delay) {
  if (!delay) return "on time";
  return `${Math.abs(delay).toFixed(1)} s ${delay < 0 ? "early" : "late"}`;
}

function updateLines(data, frame) {
  const [first, end] = [frame - 1, frame].map((last) => countUpTo(data.turns, last, (turn) => turn.frame)),
    updates = data.turns.slice(first, end).filter((turn) => turn.role === "update");
  const match = (turn) =>
    ({
      matched: [detail(` ${signOfTurn(turn)}`), ` ${delayText(turn.delay)}`],
      mismatched: [
        detail(" ◇"),
        " really ",
        ...createUpdate(data, "b", data.references[turn.link]?.text),
        `, ${delayText(turn.delay)}`,
      ],
      redundant: [detail(" ◇"), " really, no step changed"],
    })[turn.verdict] ?? [];
  return updates.map((turn) => {
    const legality = turn.legality !== "legal" && legalityTag(turn);
    return createNode("p", `ss-text ss-judged ss-${turn.verdict ?? "plain"}`, [
      ...createUpdate(data, "b", turn.text),
      legality,
      ...match(turn),
    ]);
  });
}

// The states of the steps: of the run, else of the reference, which a line then names.
function stateParts(player, data, frame) {
  const table = bandsOf(data).length ? [stateTable(player, data, frame)] : [];
  if (data.has_states || data.isReferenceAlone) return table;
  const note = `states of the steps not known${data.has_reference ? "; in the reference:" : ""}`;
  return [createNode("p", "ss-dim", note), ...table];
}

// The states of all steps, or only of those that change, are active or wrong since the latest changes, and their
// neighbours.
function stateTable(player, data, frame) {
  const { bands, state_words: words } = data,
    sign = (state) => words[state].slice(0, 1);
  const rows = data.steps.map(({ id, name, after: needed = [] }, number) => {
    const band = bands[bandsOf(data).at(-1)][number] ?? [],
      [before, after] = [stateAt(band, frame - 1), stateAt(band, frame)],
      wanted = stateAt(bands.reference[number] ?? [], frame);
    const isChanged = before !== after,
      isWrong = wanted !== null && after !== wanted,
      title = isWrong ? `should be: ${words[wanted]}` : "",
      order = needed.length ? ` after ${needed.join(", ")}` : "";
    const isActive = after === 1 || wanted === 1;
    return createNode(
      "tr",
      [isChanged && "ss-changed", isWrong && "ss-wrong", isActive && "ss-active"].filter(Boolean).join(" "),
      [
        createNode("td", "", [detail(`${id} `), name || id, createNode("small", "ss-dim", order)], { title: order }),
        createNode("td", "", `${isChanged ? `${sign(before)} → ` : ""}${words[after] ?? ""}`),
        createNode("td", "", isWrong && `should be ${sign(wanted)}`, { title }),
      ],
    );
  });
  const near = [...rows.keys()].filter((at) => rows[at].matches(".ss-changed, .ss-wrong, .ss-active"));
  near.sort((a, b) => lastChange(data, b, frame) - lastChange(data, a, frame)).splice(NUM_NEAR);
  const isKept = (at) =>
    player.isDetailed || rows.length <= FEW_STEPS || [at - 1, at, at + 1].some((other) => near.includes(other));
  const shown = rows.flatMap((row, at) => {
    if (isKept(at)) return [row];
    if (at && !isKept(at - 1)) return []; // counted in the line of the first
    const next = rows.findIndex((_, later) => later > at && isKept(later)),
      folded = rows.slice(at, next < 0 ? rows.length : next);
    const numWrong = folded.filter((one) => one.matches(".ss-wrong")).length,
      words = `… ${countText(folded.length, "step")}${numWrong ? `, ${numWrong} wrong` : ""}`,
      cell = createNode("td", "", words, { colSpan: 3 });
    return [createNode("tr", "ss-dim", cell)];
  });
  return createNode("table", "ss-states", createNode("tbody", "", shown));
}

// Returns two quotes, in which the words are marked that the other text does not have, or has less often; a side is its
// label and its text. Case and punctuation do not count. Texts without a common word have no marks.
function drawDifference(sides) {
  const plain = (word) => word.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ""),
    parts = sides.map(([, text]) => text.split(/(\s+)/)), // words and spaces
    [words, others] = parts.map((side) => countWords(side.map(plain))),
    areAlike = [...words.keys()].some((word) => word && others.has(word));
  return sides.map(([label], side) => {
    const quote = createQuote(label, ""),
      left = new Map(side ? words : others);
    const isMarked = (part) => {
      const word = plain(part),
        count = left.get(word) ?? 0;
      left.set(word, count - 1);
      return areAlike && word && count < 1;
    };
    quote.append(...parts[side].map((part) => (isMarked(part) ? createNode("mark", "", part) : showTurns(part))));
    return quote;
  });
}

function countWords(words) {
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
