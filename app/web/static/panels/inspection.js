// The model's input at a frame, on request: the prompt of its context, and its tokens with log-probabilities.

import { clockText, forgottenText, frameAt, probText, thresholdWords, timeOf } from "../state/data.js";
import { createNode, find } from "../dom/dom.js";
import { host, listeners, state, ui } from "../state/state.js";
import { setStatus } from "../dom/status.js";

const inspection = { asked: null, found: null };

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
export function isForeignRun() {
  return (
    Boolean(host.settings.model_digest && state.data?.times.length) && state.data.model !== host.settings.model_digest
  );
}

function isAnswerTo(answer, asked) {
  return answer?.run === asked.run && answer.frame === asked.frame;
}

// The reason why inspection is not possible; "" if it is.
function whyNoInspection() {
  if (!host.settings.can_run) return "Prompt and tokens need the program with the model of this run.";
  if (!state.data.times.length) return "There is no run whose prompt and tokens could be shown.";
  if (isForeignRun()) return "This run was made by a different model, whose prompt and tokens cannot be shown here.";
  return ui.receiver.run?.data === state.data
    ? "The run still streams: prompt and tokens can be shown once it ends."
    : "";
}

export function inspectionButton() {
  if (whyNoInspection()) return [];
  const button = createNode("button", "ss-inspect", "prompt and tokens");
  button.type = "button";
  button.dataset.do = "inspect";
  button.title = "What the model read at this frame, and with which probability each token came (H)";
  button.setAttribute("aria-label", "prompt and tokens of this frame");
  return [button];
}

// Opens the dialog, and requests the frame at the playhead unless it was answered already.
export function openInspection() {
  const why = whyNoInspection();
  if (why) return setStatus(why);
  ui.video.pause();
  const frame = frameAt(state.data, ui.video.time),
    asked = { run: state.data.run, frame };
  inspection.asked = asked;
  if (isAnswerTo(inspection.found, asked) && !inspection.found.error) inspection.asked = null;
  else {
    inspection.found = null;
    host.trigger("inspect_frame", { frame });
  }
  drawInspection(frame);
  find("inspection").showModal();
}

export function closeInspection() {
  inspection.asked = inspection.found = null;
  find("inspection").close();
}

function logProbText(logprob) {
  return logprob > -0.005 ? "0.00" : logprob.toFixed(2);
}
function quotedToken(text) {
  return JSON.stringify(text).slice(1, -1);
}

function drawInspection(frame) {
  const { found } = inspection,
    head = createNode("header"),
    close = createNode("button", "", "close (Esc)");
  close.type = "button";
  close.addEventListener("click", () => find("inspection").close());
  head.append(
    createNode("h3", "", `What the model read at ${clockText(state.data.times[frame])}, frame ${frame}`),
    close,
  );
  const body = !found
    ? [createNode("p", "ss-dim", "Following the stream up to this frame…")]
    : found.error
      ? [createNode("p", "ss-failure", found.error)]
      : [drawPrompt(found), drawTokens(found)];
  find("inspection").replaceChildren(head, ...body);
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

export function mountInspection() {
  document.addEventListener(
    "stepscope:inspection",
    (event) => {
      const found = event.detail ? JSON.parse(event.detail) : null;
      // the answer to an earlier request
      if (!found || !inspection.asked || !isAnswerTo(found, inspection.asked)) return;
      inspection.asked = null;
      inspection.found = found;
      if (find("inspection").open) drawInspection(found.frame);
    },
    { signal: listeners.signal },
  );

  find("inspection").addEventListener("close", () => ui.canvas.focus({ preventScroll: true }));
  find("inspection").addEventListener("click", (event) => {
    if (event.target === find("inspection")) find("inspection").close();
  }); // beside it
}
