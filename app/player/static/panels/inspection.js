// The model's input at a frame, on request: the prompt of its context, and its tokens with log-probabilities.

import { clockText, forgottenText, frameAt, probText, thresholdWords, timeOf } from "../state/data.js";
import { evidenceButton, supportSigns } from "../playback/evidence.js";
import { showsReason } from "../events/opinions.js";
import { createButton, createNode, setStatus } from "../dom/dom.js";

// The highest value near a missed reference, and its time: of the probability, or of the first named signal that
// decides the same and is known there.
export function highestNear(data, failure) {
  const decides = { missed: "speak", "missed update": "update" }[failure.kind];
  if (!decides || !data.times.length) return null;
  const names = [decides, ...data.named.filter((signal) => signal.decides === decides).map(({ series }) => series)];
  return names.map((name) => highestOf(data, failure, name)).find(Boolean) ?? null;
}

function highestOf(data, { frame: middle }, name) {
  const from = Math.max(0, middle - data.tolerance_frames),
    end = Math.min(data.times.length, middle + data.tolerance_frames + 1);
  const known = Array.from(data[name].slice(from, end), (prob, at) => ({ frame: from + at, prob }))
    .filter(({ prob }) => !Number.isNaN(prob))
    .sort((a, b) => b.prob - a.prob || Math.abs(a.frame - middle) - Math.abs(b.frame - middle));
  return known.length ? { name, ...known[0], delay: data.times[known[0].frame] - timeOf(data, middle) } : null;
}

export function highestText({ name, frame, prob, delay }, data, isHere = true) {
  const when = !isHere
    ? `at ${clockText(timeOf(data, frame))}`
    : Math.abs(delay) < 1e-3
      ? "at this frame"
      : `${Number(Math.abs(delay).toFixed(2))} s ${delay < 0 ? "earlier" : "later"}`;
  const signal = data.named.find(({ series }) => series === name),
    threshold = data.thresholds[signal?.name ?? name];
  const value = probText(prob, threshold),
    limit = threshold === undefined ? "" : `; threshold ${thresholdWords(signal?.policy ?? data.policy, threshold)}`;
  return `highest ${signal?.title ?? `${name} probability`} within ${data.tolerance_s} s: ${value}, ${when}${limit}`;
}

function isAnswerTo(answer, asked) {
  return answer?.run === asked.run && answer.frame === asked.frame;
}

// The reason why inspection is not possible; "" if it is.
function whyNoInspection(player) {
  if (!player.settings.can_run) return "Prompt and tokens need the program with the model of this run.";
  if (!player.data.times.length) return "There is no run whose prompt and tokens could be shown.";
  if (player.isForeignRun)
    return "This run was made by a different model, whose prompt and tokens cannot be shown here.";
  return player.receiver.run?.data === player.data
    ? "The run still streams: prompt and tokens can be shown once it ends."
    : "";
}

export function inspectionButton(player) {
  if (whyNoInspection(player)) return null;
  return createButton("ss-inspect", "prompt and tokens", null, {
    title: "What the model read at this frame, and with which probability each token came (H)",
    ariaLabel: "prompt and tokens of this frame",
    dataset: { do: "inspect" },
  });
}

// Opens the dialog, and requests the frame at the playhead unless it was answered already.
export function openInspection(player) {
  const why = whyNoInspection(player);
  if (why) return setStatus(player, why);
  player.video.pause();
  const frame = frameAt(player.data, player.video.time),
    asked = { run: player.data.run, frame };
  const { found } = player.inspection,
    isKnown = isAnswerTo(found, asked) && !found.error;
  player.inspection = isKnown ? { asked: null, found } : { asked, found: null };
  if (!isKnown) player.trigger("inspect_frame", { frame });
  drawInspection(player, frame);
  player.find("inspection").showModal();
}

export function closeInspection(player) {
  player.inspection.asked = player.inspection.found = null;
  player.find("inspection").close();
}

function logProbText(logprob) {
  return logprob > -0.005 ? "0.00" : logprob.toFixed(2);
}
function quotedToken(text) {
  return JSON.stringify(text).slice(1, -1);
}

function drawInspection(player, frame) {
  const { found } = player.inspection,
    title = `What the model read at ${clockText(player.data.times[frame])}, frame ${frame + 1}`,
    close = createButton("", "close (Esc)", () => player.find("inspection").close());
  const body = !found
    ? [createNode("p", "ss-dim", "Following the stream up to this frame…")]
    : found.error
      ? [createNode("p", "ss-failure", found.error)]
      : [drawPrompt(found), drawTokens(found)];
  const isShown = showsReason(player, player.data.stops[player.stopIndex]),
    decision = isShown && player.data.evidence?.find((one) => one.frame === frame),
    ask = isShown && !decision && found && !found.error && evidenceButton(player, frame);
  if (found && decision) body[0] = drawPrompt(found, decision.texts, clockText(player.data.times[frame]));
  player
    .find("inspection")
    .replaceChildren(createNode("header", "", [createNode("h3", "", title), ask, close]), ...body);
}

// The lines of the prompt in the colour of their evidence; its other texts are listed below.
function drawPrompt({ first_frame, frame, forgotten, prompt, prompt_tokens }, texts = [], at = "") {
  const begun = first_frame === frame ? "this frame" : `frame ${first_frame + 1}`;
  const parts = [
    createNode("h4", "", `Prompt, ${prompt_tokens} tokens`),
    createNode("p", "ss-dim", `The context begins with it, before ${begun}.`),
    forgotten && createNode("p", "ss-dim", `The last cut: ${forgottenText(forgotten)}.`),
    texts.length > 0 &&
      createNode("p", "ss-legend", supportSigns(["a line supports ", `opposes the decision at ${at}`])),
    createNode(
      "pre",
      "",
      prompt.split("\n").flatMap((line) => [drawLine(line, texts), "\n"]),
    ),
    ...texts
      .filter(([change]) => change !== "line removed")
      .map((found) => createNode("p", "ss-legend", textWords(found))),
  ];
  return createNode("section", "", parts, { tabIndex: 0, ariaLabel: "Prompt" });
}

function textWords([change, text, value, random]) {
  const sign = (number) => `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(2)}`;
  return `${change}: ${text}: log-odds ${sign(value)}, with random weights ${sign(random)}`;
}

function drawLine(line, texts) {
  const found = texts.find(([change, text]) => change === "line removed" && line.trim().endsWith(text));
  if (!found) return line;
  const drawn = createNode("span", "", line, { title: textWords(found) }),
    most = Math.max(...texts.map(([, , value]) => Math.abs(value))),
    share = Math.round((60 * Math.abs(found[2])) / most);
  const colour = found[2] < 0 ? "mismatched" : "speak";
  drawn.style.background = `color-mix(in srgb, var(--ss-${colour}) ${share}%, transparent)`;
  return drawn;
}

const LOG_P =
  "log p: natural logarithm of the model's probability of the token: 0.00 is certain, -0.69 one in two, " +
  "-4.61 one in a hundred.";
const LIKELIER =
  "likelier: the token that the model held for the likeliest at that place, where it is another, with its log p.";
const FORCED =
  "forced: fed by the program, not chosen by the model: the image, the user's words, and [DST] or [ASST], " +
  "with which an update or a response begins once a probability is above its threshold.";
const WAITS = "chosen last: the model's last choice here; the next frame feeds it.";

function drawTokens(found) {
  const before =
    `${found.earlier_tokens} tokens stand before them. At this frame: speak ` +
    `${found.speak_prob.toFixed(3)}, update ${found.update_prob.toFixed(3)}.`;
  const terms = [
    [LOG_P, () => true],
    [LIKELIER, hasLikelier],
    [FORCED, (token) => !token.is_chosen],
    [WAITS, (token) => !token.is_fed],
  ];
  const heads = ["token", "", "log p", "likelier", "id"].map((name) => createNode("th", "", name));
  const parts = [
    createNode("h4", "", "Tokens of this frame, in the order in which they were fed"),
    createNode("p", "ss-dim", before),
    ...terms.filter(([, isMeant]) => found.tokens.some(isMeant)).map(([words]) => legendLine(words)),
    createNode("table", "ss-tokens", [
      createNode("thead", "", createNode("tr", "", heads)),
      createNode("tbody", "", found.tokens.map(drawToken)),
    ]),
  ];
  return createNode("section", "", parts, { tabIndex: 0, ariaLabel: "Tokens" });
}

function legendLine(words) {
  const end = words.indexOf(":");
  return createNode("p", "ss-legend", [createNode("b", "", words.slice(0, end)), words.slice(end)]);
}

function hasLikelier(token) {
  return token.best_logprob !== null && token.best !== token.text;
}

function drawToken(token) {
  const [tag, title] = !token.is_fed ? ["chosen last", WAITS] : !token.is_chosen ? ["forced", FORCED] : [];
  return createNode("tr", tag && "ss-dim", [
    createNode("td", "ss-token", quotedToken(token.text)),
    createNode("td", "", tag && createNode("span", "ss-tag", tag, { title })),
    createNode("td", "", token.logprob !== null && logProbText(token.logprob)),
    createNode(
      "td",
      "ss-token",
      hasLikelier(token) && [quotedToken(token.best), createNode("small", "", logProbText(token.best_logprob))],
    ),
    createNode("td", "", token.id),
  ]);
}

// Shows the answer to a request, unless a later one has been made.
export function receiveInspection(player, found) {
  if (!player.inspection.asked || !isAnswerTo(found, player.inspection.asked)) return;
  player.inspection.asked = null;
  player.inspection.found = found;
  if (player.find("inspection").open) drawInspection(player, found.frame);
}

export function redrawInspection(player) {
  if (player.inspection.found && player.find("inspection").open) drawInspection(player, player.inspection.found.frame);
}

export function mountInspection(player) {
  player.listen("inspection", "close", () => player.focus());
  // a click beside it
  player.listen("inspection", "click", ({ target, currentTarget }) => target === currentTarget && target.close());
}
