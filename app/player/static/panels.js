// The words beside the video: what is at the playhead, the transcript, the curves. Texts enter as textContent alone.

function node(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}

function drawNow(panel, data, frame, time, failure) {
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

function quoted(who, text) {
  const box = node("p", "ss-text ss-quoted");
  box.append(node("span", "ss-tag", who), text);
  return box;
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

function legalityTag(turn) {
  const tag = node("span", "ss-tag", turn.legality);
  tag.title = turn.legality === "malformed"
    ? "not written as STEP->start or STEP->complete: it changes nothing"
    : "of a step that does not exist, or it skips, repeats or goes back";
  return tag;
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

class Transcript {
  constructor(panel, go) {
    this.panel = panel;
    this.rows = [];
    this.current = -1;
    this.list = new WindowedList(panel, (number) => this.drawRow(this.data, this.rows[number]));
    panel.addEventListener("click", (event) => {
      const row = event.target.closest(".ss-row");
      if (row) go(this.rows[row.dataset.row]);
    });
    panel.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" && event.target.dataset.row) go(this.rows[event.target.dataset.row]);
      else if (step) this.list.bring(Number(event.target.closest(".ss-row")?.dataset.row) + step)?.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  draw(data) {
    this.data = data;
    this.rows = data.rows;
    this.current = -1;
    this.opinions = null;
    this.list.reset(this.rows.length);
    if (!this.rows.length) this.panel.append(node("p", "ss-dim", "Nothing was said or updated."));
  }

  // Shows the rows that were inserted at these places, in their order.
  insert(places) {
    if (!this.list.length) this.panel.lastChild.remove(); // that nothing was said
    this.list.anchored(() => places.forEach((place) => {
      if (place <= this.current) this.current += 1;
      this.list.insert(place);
    }));
  }

  drawRow(data, row) {
    const box = node("div", "ss-row");
    box.setAttribute("role", "button");
    const glyph = { update: "◆", user: "▹", assistant: "●" }[row.role];
    const words = node("span", "ss-words");
    const { turn, reference } = row;
    const kind = turn ? turn.failure : reference.is_missed ? { update: "missed update", assistant: "missed" }[row.role] : null;
    const mark = node("span", `ss-mark ss-${kind ? "mismatched" : "matched"}`, kind ? KINDS[kind] : turn?.verdict ? "✓" : "");
    mark.title = kind ?? "";
    if (turn && turn.score !== null && turn.verdict === "matched") {
      mark.title = [kind, `similarity ${turn.score.toFixed(2)}`].filter(Boolean).join(", ");
      mark.append(node("small", "ss-score", turn.score.toFixed(2)));
    }
    if (turn) words.append(node("span", "", turn.text));
    if (turn && turn.legality !== "legal") words.append(legalityTag(turn));
    if (row.role === "user") words.append(node("span", "", reference.text));
    else if (reference && (!turn || reference.text !== turn.text)) {
      words.append(quoted(turn || data.isReferenceAlone ? "reference" : reference.is_missed ? "missed" : "not reached", reference.text));
    }
    box.append(node("span", "ss-time", clockText(row.time)), node("span", "", glyph), words, mark, node("span", "ss-given"));
    box.classList.toggle("ss-current", row === this.rows[this.current]);
    if (this.opinions) this.markRow(box, row);
    return box;
  }

  // Writes a reviewer's verdicts beside the rows; `opinions` returns what is said of the events of some keys.
  mark(opinions) {
    this.opinions = (row) => opinions([row.reference?.key, row.turn?.key]).filter((found) => found.verdict !== null);
    this.list.boxes.forEach((box) => this.markRow(box, this.rows[box.dataset.row]));
  }

  markRow(row, { reference, turn }) {
    const said = this.opinions({ reference, turn }), box = row.lastElementChild;
    const words = said.map((found) => `${found.verdict}${found.isWaiting ? " (not saved yet)" : ""}`).join(", ");
    if (box.title === words) return;
    box.title = words;
    box.replaceChildren(...said.map((found) => node("kbd", found.isWaiting ? "ss-waits" : "", props.verdicts.indexOf(found.verdict) + 1)));
  }

  // Marks the row of an event or a failure, or else of a time; scrolls to it only while the mouse is elsewhere.
  follow(time, selected) {
    if (!this.panel.clientHeight) return; // hidden: it follows once it is shown
    const isOf = (row) => (selected.turn === null ? row.link === selected.reference : row.number === selected.turn);
    const hasRow = selected && (selected.turn !== null || selected.reference !== null); // a time of wrong state has none
    let number = hasRow ? this.rows.findIndex(isOf) : -1;
    if (number < 0) number = countUpTo(this.rows, time + 1e-4, (row) => row.time) - 1;
    if (number === this.current) return;
    this.list.boxOf(this.current)?.classList.remove("ss-current");
    this.current = number;
    this.list.boxOf(number)?.classList.add("ss-current");
    if (number < 0 || this.panel.matches(":hover, :focus-within")) return;
    const row = this.list.bring(number);
    const [top, height] = [row.offsetTop - this.panel.offsetTop, this.panel.clientHeight];
    if (top < this.panel.scrollTop || top + row.offsetHeight > this.panel.scrollTop + height) this.panel.scrollTop = top - height / 3;
  }
}

const curves = { data: null };
const CURVE = { width: 260, height: 106, left: 26, top: 6, size: 68, stretch: 3.25 };

function drawCurves(panel, data, shown) {
  if (!data.has_reference) return void panel.replaceChildren(node("p", "ss-dim", "There is no reference to score against."));
  if (data.isReferenceAlone) return void panel.replaceChildren(node("p", "ss-dim", "There is no run to score: this is the reference alone."));
  if (curves.data !== data) Object.assign(curves, { data, ...Object.fromEntries(DECISIONS.map((name) => [name, new Curve(data, name, receiver.run?.data === data)])) });
  const hint = `Decisions within ${data.tolerance_s} s of the reference. ● is the threshold now.`;
  panel.replaceChildren(node("p", "ss-dim", hint), ...DECISIONS.map((name) => drawCurve(data, name, shown)));
}

function drawCurve(data, name, shown) {
  const { width, height, left, top, size, stretch } = CURVE;
  const make = (tag, more, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const key in more) made.setAttribute(key, more[key]);
    made.textContent = text;
    return made;
  };
  const place = (point) => [left + point.recall * size * stretch, top + (1 - point.precision) * size];
  const now = rates(shown.counts[name]);
  const figure = make("svg", { viewBox: `0 0 ${width} ${height}`, class: "ss-curve", role: "img" });
  figure.setAttribute("aria-label", `${name}: precision ${now.precision.toFixed(2)}, recall ${now.recall.toFixed(2)}`);
  figure.append(make("rect", { x: left, y: top, width: size * stretch, height: size, class: "ss-frame" }));
  for (const share of [0, 0.5, 1]) {
    figure.append(make("text", { x: left - 4, y: top + (1 - share) * size + 4, "text-anchor": "end" }, share));
    figure.append(make("text", { x: left + share * size * stretch, y: top + size + 13, "text-anchor": "middle" }, share));
  }
  const points = curves[name].points().filter((point) => !Number.isNaN(point.precision + point.recall));
  figure.append(make("polyline", { points: points.map((point) => place(point).join()).join(" "), class: `ss-stroke-${name}` }));
  if (!Number.isNaN(now.precision + now.recall)) {
    const [x, y] = place(now);
    figure.append(make("circle", { cx: x, cy: y, r: 4.5, class: `ss-fill-${name}` }));
  }
  const words = `${name}: precision ↑ ${now.precision.toFixed(2)}, recall → ${now.recall.toFixed(2)}`.replaceAll("NaN", "undefined");
  figure.append(make("text", { x: left + 4, y: height - 4 }, words));
  return figure;
}
