// What the model read at a frame, asked for by a button: the prompt of its context, and its tokens with log-probabilities.

import { clockText, frameAt, probText, thresholdText, timeOf } from "./data.js";
import { find, node } from "./dom.js";
import { host, listeners, state, ui } from "./state.js";
import { say } from "./status.js";

const inspection = { asked: null, found: null };

// The highest probability near a reference that was missed, and when it was.
export function highestNear(data, failure) {
  const name = { missed: "speak", "missed update": "update" }[failure.kind];
  if (!name || !data.times.length) return null;
  const last = data.times.length - 1;
  const from = Math.max(0, failure.frame - data.tolerance_frames), to = Math.min(last, failure.frame + data.tolerance_frames);
  let best = from;
  for (let frame = from; frame <= to; frame += 1) {
    const isNearer = data[name][frame] === data[name][best] && Math.abs(frame - failure.frame) < Math.abs(best - failure.frame);
    if (data[name][frame] > data[name][best] || isNearer) best = frame;
  }
  return { name, frame: best, prob: data[name][best], delay: data.times[best] - timeOf(data, failure.frame) };
}

export function highestWords({ name, prob, delay }, data) {
  const when = Math.abs(delay) < 1e-3 ? "at this frame" : `${Number(Math.abs(delay).toFixed(2))} s ${delay < 0 ? "earlier" : "later"}`;
  return `highest ${name} probability within ${data.tolerance_s} s: ${probText(prob, data.thresholds[name])}, ${when}; threshold ${thresholdText(data.thresholds[name])}`;
}

function isOf(answer, asked) { return answer?.run === asked.run && answer.frame === asked.frame; }

// Why nothing can be inspected; "" where it can be.
function whyNoInspection() {
  if (!state.data.times.length) return "There is no run whose prompt and tokens could be shown.";
  return ui.receiver.run?.data === state.data ? "The run still streams: prompt and tokens can be shown once it ends." : "";
}

export function inspectionButton() {
  if (whyNoInspection()) return [];
  const button = node("button", "ss-inspect", "prompt and tokens");
  button.type = "button";
  button.dataset.do = "inspect";
  button.title = "What the model read at this frame, and with which probability each token came (H)";
  button.setAttribute("aria-label", "prompt and tokens of this frame");
  return [button];
}

// Opens the panel over the page, and asks for the frame at the playhead unless its answer is there.
export function openInspection() {
  const why = whyNoInspection();
  if (why) return say(why);
  ui.video.pause();
  const frame = frameAt(state.data, ui.video.time), asked = { run: state.data.run, frame };
  inspection.asked = asked;
  if (isOf(inspection.found, asked) && !inspection.found.error) inspection.asked = null;
  else { inspection.found = null; host.trigger("inspect_frame", { frame }); }
  drawInspection(frame);
  find("inspection").showModal();
}

export function closeInspection() {
  inspection.asked = inspection.found = null;
  find("inspection").close();
}

function logWords(logprob) { return logprob > -0.005 ? "0.00" : logprob.toFixed(2); }
function quotedToken(text) { return JSON.stringify(text).slice(1, -1); }

function drawInspection(frame) {
  const { found } = inspection, head = node("header"), close = node("button", "", "close (Esc)");
  close.type = "button";
  close.addEventListener("click", () => find("inspection").close());
  head.append(node("h3", "", `What the model read at ${clockText(state.data.times[frame])}, frame ${frame}`), close);
  const body = !found ? [node("p", "ss-dim", "Following the stream up to this frame…")]
    : found.error ? [node("p", "ss-failure", found.error)] : [drawPrompt(found), drawTokens(found)];
  find("inspection").replaceChildren(head, ...body);
}

function drawPrompt(found) {
  const part = node("section"), begun = found.first_frame === found.frame ? "this frame" : `frame ${found.first_frame}`;
  part.tabIndex = 0;
  part.setAttribute("aria-label", "Prompt");
  part.append(node("h4", "", `Prompt, ${found.prompt_tokens} tokens`), node("p", "ss-dim", `The context begins with it, before ${begun}.`), node("pre", "", found.prompt));
  return part;
}

const LOG_P = "log p: natural logarithm of the model's probability of the token: 0.00 is certain, -0.69 one in two, -4.61 one in a hundred.";
const LIKELIER = "likelier: the token that the model held for the likeliest at that place, where it is another, with its log p.";
const FORCED = "forced: fed by the program, not chosen by the model: the image, the user's words, and [DST] or [ASST], with which an update or a response begins once a probability is above its threshold.";
const WAITS = "chosen last: the model's last choice here; the next frame feeds it.";

function drawTokens(found) {
  const part = node("section"), table = node("table", "ss-tokens"), top = table.createTHead().insertRow(), body = table.createTBody();
  part.tabIndex = 0;
  part.setAttribute("aria-label", "Tokens");
  const before = `${found.earlier_tokens} tokens stand before them. At this frame: speak ${found.speak_prob.toFixed(3)}, update ${found.update_prob.toFixed(3)}.`;
  part.append(node("h4", "", "Tokens of this frame, in the order in which they were fed"), node("p", "ss-dim", before));
  const terms = [[LOG_P, () => true], [LIKELIER, hasLikelier], [FORCED, (token) => !token.is_chosen], [WAITS, (token) => !token.is_fed]];
  for (const [words, isMeant] of terms) if (found.tokens.some(isMeant)) part.append(legendLine(words));
  for (const name of ["token", "", "log p", "likelier", "id"]) top.append(node("th", "", name));
  for (const token of found.tokens) body.append(drawToken(token));
  part.append(table);
  return part;
}

function legendLine(words) {
  const [term, ...rest] = words.split(":"), box = node("p", "ss-legend");
  box.append(node("b", "", term), `:${rest.join(":")}`);
  return box;
}

function hasLikelier(token) { return token.best_logprob !== null && token.best !== token.text; }

function drawToken(token) {
  const row = node("tr"), how = node("td"), likelier = node("td", "ss-token");
  const tag = !token.is_fed ? ["chosen last", WAITS] : !token.is_chosen ? ["forced", FORCED] : null;
  if (tag) { how.append(node("span", "ss-tag", tag[0])); how.firstChild.title = tag[1]; row.className = "ss-dim"; }
  row.append(node("td", "ss-token", quotedToken(token.text)), how, node("td", "", token.logprob === null ? "" : logWords(token.logprob)));
  if (hasLikelier(token)) likelier.append(quotedToken(token.best), node("small", "", logWords(token.best_logprob)));
  row.append(likelier, node("td", "", token.id ?? ""));
  return row;
}

export function mountInspection() {
  document.addEventListener("stepscope:inspection", (event) => {
    const found = event.detail ? JSON.parse(event.detail) : null;
    if (!found || !inspection.asked || !isOf(found, inspection.asked)) return; // of a frame that was asked for before
    inspection.asked = null;
    inspection.found = found;
    if (find("inspection").open) drawInspection(found.frame);
  }, { signal: listeners.signal });

  find("inspection").addEventListener("close", () => ui.canvas.focus({ preventScroll: true }));
  find("inspection").addEventListener("click", (event) => { if (event.target === find("inspection")) find("inspection").close(); }); // beside it
}
