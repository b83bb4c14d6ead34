// What the model read at a frame, asked for by a button: the prompt of its context, and its tokens with log-probabilities.

const inspection = { asked: null, found: null };

// The highest probability near a reference that was missed, and when it was.
function highestNear(data, failure) {
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

function highestWords({ name, prob, delay }, data) {
  const when = Math.abs(delay) < 1e-3 ? "at this frame" : `${Number(Math.abs(delay).toFixed(2))} s ${delay < 0 ? "earlier" : "later"}`;
  return `highest ${name} probability within ${data.tolerance_s} s: ${probText(prob, data.thresholds[name])}, ${when}; threshold ${thresholdText(data.thresholds[name])}`;
}

function isInspected(asked, frame) { return asked?.run === data.run && asked.frame === frame; }

function inspectionLines(frame) {
  if (!data.times.length || receiver.run?.data === data) return []; // nothing yet, or it streams
  const button = node("button", "", "prompt and tokens of this frame");
  button.type = "button";
  button.addEventListener("click", () => askInspection(frame));
  if (isInspected(inspection.asked, frame)) return [node("p", "ss-dim", "Following the stream up to this frame…")];
  return isInspected(inspection.found, frame) ? drawInspection(inspection.found) : [button];
}

function askInspection(frame) {
  inspection.asked = { run: data.run, frame };
  trigger("inspect_frame", { frame });
  drawAgain();
}

document.addEventListener("stepscope:inspection", (event) => {
  inspection.asked = null;
  inspection.found = event.detail ? JSON.parse(event.detail) : null;
  drawAgain();
}, { signal: listeners.signal });

function logWords(logprob) { return logprob > -0.005 ? "0.00" : logprob.toFixed(2); }

function drawInspection(found) {
  if (found.error) return [node("p", "ss-failure", found.error)];
  const prompt = node("details");
  const begun = found.first_frame === found.frame ? "this frame" : `frame ${found.first_frame}`;
  prompt.append(node("summary", "", `prompt, ${found.prompt_tokens} tokens, before ${begun}`), node("pre", "ss-text", found.prompt));
  const words = `${found.earlier_tokens} tokens before this frame; speak ${found.speak_prob.toFixed(3)}, update ${found.update_prob.toFixed(3)} of the same pass.`;
  const table = node("table", "ss-tokens"), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const name of ["id", "token", "log p", "likeliest"]) head.append(node("th", "", name));
  for (const token of found.tokens) {
    const row = body.insertRow(), isOther = token.best_logprob !== null && token.best !== token.text;
    row.append(node("td", "", token.id ?? ""), node("td", "ss-token", JSON.stringify(token.text).slice(1, -1)));
    row.append(node("td", "", token.logprob === null ? "" : logWords(token.logprob)), node("td", "ss-token", isOther ? `${JSON.stringify(token.best).slice(1, -1)} ${logWords(token.best_logprob)}` : ""));
    if (!token.is_fed) { row.className = "ss-dim"; row.title = "picked last; the next frame feeds it"; }
  }
  return [prompt, node("p", "ss-dim", words), table];
}
