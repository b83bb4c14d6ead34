// The model's input at a frame, on request: the prompt of its context, and its tokens with log-probabilities.

import { clockText, forgottenText, frameAt, probText, thresholdWords, timeOf } from "../state/data.js";
import { createNode } from "../dom/dom.js";
import { setStatus } from "../dom/status.js";

// The highest value near a missed reference, and its time: of the probability, or of the first named signal that
// decides the same and is known there.
export function highestNear(data, failure) {
  const decides = { missed: "speak", "missed update": "update" }[failure.kind];
  if (!decides || !data.times.length) return null;
  const names = [decides, ...data.named.filter((signal) => signal.decides === decides).map(({ series }) => series)];
  return names.map((name) => highestOf(data, failure, name)).find(Boolean) ?? null;
}

function highestOf(data, failure, name) {
  const last = data.times.length - 1;
  const from = Math.max(0, failure.frame - data.tolerance_frames),
    to = Math.min(last, failure.frame + data.tolerance_frames);
  let best = null;
  for (let frame = from; frame <= to; frame += 1) {
    if (Number.isNaN(data[name][frame])) continue;
    best ??= frame;
    const isNearer =
      data[name][frame] === data[name][best] && Math.abs(frame - failure.frame) < Math.abs(best - failure.frame);
    if (data[name][frame] > data[name][best] || isNearer) best = frame;
  }
  return best === null
    ? null
    : { name, frame: best, prob: data[name][best], delay: data.times[best] - timeOf(data, failure.frame) };
}

export function highestText({ name, frame, prob, delay }, data, isHere = true) {
  const when = !isHere
    ? `at ${clockText(timeOf(data, frame))}`
    : Math.abs(delay) < 1e-3
      ? "at this frame"
      : `${Number(Math.abs(delay).toFixed(2))} s ${delay < 0 ? "earlier" : "later"}`;
  const signal = data.named.find(({ series }) => series === name),
    threshold = data.thresholds[signal?.name ?? name];
  const value = threshold === undefined ? prob.toFixed(3) : probText(prob, threshold),
    limit = threshold === undefined ? "" : `; threshold ${thresholdWords(signal?.policy ?? data.policy, threshold)}`;
  return `highest ${signal?.title ?? `${name} probability`} within ${data.tolerance_s} s: ${value}, ${when}${limit}`;
}

// Whether the page shows a run of a different model, or of a result file, which the page's model cannot continue.
export function isForeignRun(player) {
  return (
    Boolean(player.settings.model_digest && player.data?.times.length) &&
    player.data.model !== player.settings.model_digest
  );
}

function isAnswerTo(answer, asked) {
  return answer?.run === asked.run && answer.frame === asked.frame;
}

// The reason why inspection is not possible; "" if it is.
function whyNoInspection(player) {
  if (!player.settings.can_run) return "Prompt and tokens need the program with the model of this run.";
  if (!player.data.times.length) return "There is no run whose prompt and tokens could be shown.";
  if (isForeignRun(player))
    return "This run was made by a different model, whose prompt and tokens cannot be shown here.";
  return player.receiver.run?.data === player.data
    ? "The run still streams: prompt and tokens can be shown once it ends."
    : "";
}

export function inspectionButton(player) {
  if (whyNoInspection(player)) return [];
  const button = createNode("button", "ss-inspect", "prompt and tokens");
  button.type = "button";
  button.dataset.do = "inspect";
  button.title = "What the model read at this frame, and with which probability each token came (H)";
  button.setAttribute("aria-label", "prompt and tokens of this frame");
  return [button];
}

// Opens the dialog, and requests the frame at the playhead unless it was answered already.
export function openInspection(player) {
  const why = whyNoInspection(player);
  if (why) return setStatus(player, why);
  player.video.pause();
  const frame = frameAt(player.data, player.video.time),
    asked = { run: player.data.run, frame };
  player.inspection.asked = asked;
  if (isAnswerTo(player.inspection.found, asked) && !player.inspection.found.error) player.inspection.asked = null;
  else {
    player.inspection.found = null;
    player.trigger("inspect_frame", { frame });
  }
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
    head = createNode("header"),
    close = createNode("button", "", "close (Esc)");
  close.type = "button";
  close.addEventListener("click", () => player.find("inspection").close());
  head.append(
    createNode("h3", "", `What the model read at ${clockText(player.data.times[frame])}, frame ${frame}`),
    close,
  );
  const body = !found
    ? [createNode("p", "ss-dim", "Following the stream up to this frame…")]
    : found.error
      ? [createNode("p", "ss-failure", found.error)]
      : [drawPrompt(found), drawTokens(found)];
  player.find("inspection").replaceChildren(head, ...body);
}

function drawPrompt(found) {
  const part = createNode("section"),
    begun = found.first_frame === found.frame ? "this frame" : `frame ${found.first_frame}`;
  part.tabIndex = 0;
  part.setAttribute("aria-label", "Prompt");
  part.append(
    createNode("h4", "", `Prompt, ${found.prompt_tokens} tokens`),
    createNode("p", "ss-dim", `The context begins with it, before ${begun}.`),
  );
  if (found.forgotten) part.append(createNode("p", "ss-dim", `The last cut: ${forgottenText(found.forgotten)}.`));
  part.append(createNode("pre", "", found.prompt));
  return part;
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
  const part = createNode("section"),
    table = createNode("table", "ss-tokens"),
    top = table.createTHead().insertRow(),
    body = table.createTBody();
  part.tabIndex = 0;
  part.setAttribute("aria-label", "Tokens");
  const before =
    `${found.earlier_tokens} tokens stand before them. At this frame: speak ` +
    `${found.speak_prob.toFixed(3)}, update ${found.update_prob.toFixed(3)}.`;
  part.append(
    createNode("h4", "", "Tokens of this frame, in the order in which they were fed"),
    createNode("p", "ss-dim", before),
  );
  const terms = [
    [LOG_P, () => true],
    [LIKELIER, hasLikelier],
    [FORCED, (token) => !token.is_chosen],
    [WAITS, (token) => !token.is_fed],
  ];
  for (const [words, isMeant] of terms) if (found.tokens.some(isMeant)) part.append(legendLine(words));
  for (const name of ["token", "", "log p", "likelier", "id"]) top.append(createNode("th", "", name));
  for (const token of found.tokens) body.append(drawToken(token));
  part.append(table);
  return part;
}

function legendLine(words) {
  const [term, ...rest] = words.split(":"),
    box = createNode("p", "ss-legend");
  box.append(createNode("b", "", term), `:${rest.join(":")}`);
  return box;
}

function hasLikelier(token) {
  return token.best_logprob !== null && token.best !== token.text;
}

function drawToken(token) {
  const row = createNode("tr"),
    how = createNode("td"),
    likelier = createNode("td", "ss-token");
  const tag = !token.is_fed ? ["chosen last", WAITS] : !token.is_chosen ? ["forced", FORCED] : null;
  if (tag) {
    how.append(createNode("span", "ss-tag", tag[0]));
    how.firstChild.title = tag[1];
    row.className = "ss-dim";
  }
  row.append(
    createNode("td", "ss-token", quotedToken(token.text)),
    how,
    createNode("td", "", token.logprob === null ? "" : logProbText(token.logprob)),
  );
  if (hasLikelier(token))
    likelier.append(quotedToken(token.best), createNode("small", "", logProbText(token.best_logprob)));
  row.append(likelier, createNode("td", "", token.id ?? ""));
  return row;
}

export function mountInspection(player) {
  document.addEventListener(
    "stepscope:inspection",
    (event) => {
      const found = event.detail ? JSON.parse(event.detail) : null;
      // the answer to an earlier request
      if (!found || !player.inspection.asked || !isAnswerTo(found, player.inspection.asked)) return;
      player.inspection.asked = null;
      player.inspection.found = found;
      if (player.find("inspection").open) drawInspection(player, found.frame);
    },
    { signal: player.listeners.signal },
  );

  player.find("inspection").addEventListener("close", () => player.canvas.focus({ preventScroll: true }));
  player.find("inspection").addEventListener("click", (event) => {
    if (event.target === player.find("inspection")) player.find("inspection").close();
  }); // beside it
}
