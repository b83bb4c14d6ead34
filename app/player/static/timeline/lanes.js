// The lanes on one canvas over one axis of time. Only what is in view is drawn, and a trace has at most two points per pixel.

import { Axis, GUTTER, MARGIN } from "./axis.js";
import { createHatching, cross, dot, fitText, line, resizeCanvas, triangle } from "./canvas.js";
import { bandsOf, clockText, countUpTo, DECISIONS, frameAt, gridFrame, modelTimeText, stateAt, thresholdText, timeOf } from "../state/data.js";

const LINKS_HEIGHT = 12;
const STATES = ["not_started", "in_progress", "completed"];
const MATCH_SIGNS = {matched: "✓", mismatched: "≠", redundant: "+"};

export class Lanes extends Axis {
  constructor(canvas) {
    super();
    this.canvas = canvas;
    this.rows = [];
    this.readColours();
  }

  readColours() {
    const style = getComputedStyle(this.canvas);
    const read = (name) => style.getPropertyValue(`--ss-${name}`).trim();
    this.colours = Object.fromEntries([
      "speak", "update", "matched", "mismatched", "redundant", "missed", "reference", "user", "active", "done",
      "ink", "faint", "grid", "shade", "latency",
    ].map((name) => [name, read(name)]));
    this.font = `12px ${style.fontFamily}`;
    this.hatch = null;
  }

  // Arranges the rows for a run; returns their total height in pixels.
  arrange(data) {
    const rows = [];
    let top = 4;
    const add = (kind, height, more = {}) => { rows.push({kind, top, height, ...more}); top += height; };
    if (data.userTurns.length) add("user", 20, {label: "user"});
    if (data.has_reference) {
      add("reference", 20, {label: "reference"});
      if (data.hasLayer) add("corrected", 26, {label: "corrected"});
      if (!data.isReferenceAlone) add("links", LINKS_HEIGHT);
    }
    if (!data.isReferenceAlone) add("said", 20, {label: data.other ? "A assistant" : "assistant"});
    if (data.isReviewing) add("judged", 13, {label: "judged"});
    top += 6;
    const height = data.steps.length > 8 ? 14 : 23;
    data.steps.forEach((step, number) => add("step", height, {label: `${step.id} ${step.name}`, step: number}));
    top += 6;
    if (!data.isReferenceAlone) {
      DECISIONS.forEach((name) => { add("trace", 56, {label: name, name}); top += 4; });
      add("strip", 24, {label: "cache, latency"});
    }
    if (data.other) this.addOther(add, data.other, height);
    add("axis", 18);
    this.rows = rows;
    return top;
  }

  // The lanes of a second run of the video, below those of the first.
  addOther(add, other, height) {
    add("heading", 18, {label: `B: ${other.run_name}`});
    add("said", 20, {label: "B assistant", of: other});
    add("gap", 4);
    other.steps.forEach((step, number) => add("step", height, {label: `${step.id} ${step.name}`, step: number, of: other}));
    add("gap", 6);
    DECISIONS.forEach((name) => { add("trace", 56, {label: name, name, of: other}); add("gap", 4); });
  }

  resize(width, height) {
    this.width = width;
    this.height = height;
    this.canvas.style.height = `${height}px`;
    this.context = resizeCanvas(this.canvas, width, height);
  }

  traceY(row, prob) { return row.top + row.height - 5 - prob * (row.height - 11); }
  traceProb(row, y) { return Math.min(1, Math.max(0, (row.top + row.height - 5 - y) / (row.height - 11))); }
  rowAt(y) { return this.rows.find((row) => y >= row.top && y < row.top + row.height); }

  paint(data, shown) {
    const pen = this.context;
    if (!pen || !data) return;
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = this.font;
    pen.textBaseline = "middle";
    this.paintGrid(pen, data, shown);
    for (const row of this.rows) {
      const [run, settings] = row.of ? [row.of, row.of.shown] : [data, shown];
      if (row.label) this.paintLabel(pen, row, run, settings);
      pen.save();
      pen.beginPath();
      pen.rect(GUTTER - 7, 0, this.inner + 14, this.height);
      pen.clip();
      this[`paint_${row.kind}`]?.(pen, row, run, settings);
      pen.restore();
    }
  }

  paintGrid(pen, data, shown) {
    const seconds = this.view.end - this.view.start;
    const step = [0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 3600].find((s) => seconds / s <= this.inner / 70) ?? 7200;
    const axis = this.rows.at(-1);
    const unreached = data.isReferenceAlone ? this.width : Math.max(GUTTER, this.x(data.reached));
    pen.fillStyle = this.colours.shade;
    if (unreached < this.width - MARGIN) pen.fillRect(unreached, 0, this.width - MARGIN - unreached, axis.top);
    if (shown.region) {
      const [from, to] = shown.region.map((time) => Math.min(this.width - MARGIN, Math.max(GUTTER, this.x(time))));
      pen.fillStyle = this.colours.grid;
      pen.fillRect(from, 0, to - from, axis.top);
    }
    pen.strokeStyle = this.colours.grid;
    pen.fillStyle = this.colours.ink;
    pen.textAlign = "center";
    for (let tick = Math.ceil(this.view.start / step) * step; tick <= this.view.end + 1e-9; tick += step) {
      const x = Math.round(this.x(tick)) + 0.5;
      line(pen, x, 0, x, axis.top + 3);
      pen.fillText(clockText(tick, step < 1 ? 1 : 0), x, axis.top + 11);
    }
  }

  paintLabel(pen, row, data, shown) {
    pen.textAlign = "left";
    pen.fillStyle = this.colours.ink;
    const middle = row.top + row.height / 2;
    if (row.kind === "heading") return void pen.fillText(fitText(pen, row.label, this.width - 20), 4, middle);
    if (row.kind === "step") return this.paintStepLabel(pen, row, data, middle);
    if (row.kind !== "trace") return void pen.fillText(fitText(pen, row.label, GUTTER - 14), 4, middle);
    const counts = shown.counts[row.name];
    pen.fillStyle = this.colours[row.name];
    pen.fillText(`${row.name} > ${thresholdText(shown.thresholds[row.name])}`, 4, row.top + 12);
    pen.fillStyle = this.colours.ink;
    if (!data.has_reference) return void pen.fillText(`${counts.hits.length} decisions`, 4, row.top + 29);
    pen.fillText(`● ${counts.hits.length} in time  ▲ ${counts.alarms.length} false`, 4, row.top + 29);
    pen.fillText(`✕ ${counts.misses.length} missed`, 4, row.top + 45);
  }

  paintStepLabel(pen, row, data, middle) {
    const isPaired = bandsOf(data).length > 1 && row.height > 22;
    pen.fillText(fitText(pen, row.label, GUTTER - (isPaired ? 50 : 14)), 4, middle);
    if (!isPaired) return;
    const font = pen.font;
    pen.font = font.replace("12px", "11px");
    pen.textAlign = "right";
    pen.fillText("ref", GUTTER - 9, row.top + 5.5);
    pen.fillText("model", GUTTER - 9, row.top + 15.5);
    pen.font = font;
  }

  paint_user(pen, row, data) { this.paintTexts(pen, row, data.userTurns, () => [this.colours.user, "▹"]); }

  paint_reference(pen, row, data) {
    this.paintTexts(pen, row, data.referenceTurns, (turn) => (turn.is_missed ? [this.colours.missed, "✕", true] : [this.colours.reference, "●"]));
  }

  paint_said(pen, row, data) {
    this.paintTexts(pen, row, data.responses, (turn) => [this.colours[turn.verdict] ?? this.colours.speak, MATCH_SIGNS[turn.verdict] ?? "●"]);
  }

  paintTexts(pen, row, turns, look) {
    pen.textAlign = "left";
    const first = Math.max(0, countUpTo(turns, this.view.start, (turn) => turn.time) - 1);
    let before = "";
    row.boxes = []; // for hit tests: [left, width, turn]
    for (let number = first; number < turns.length && turns[number].time <= this.view.end; number += 1) {
      const turn = turns[number], [colour, glyph, isHollow] = look(turn);
      const left = this.x(turn.time), place = `${Math.round(left)}${colour}`;
      if (place === before) continue; // the difference is below one pixel
      before = place;
      const next = number + 1 < turns.length ? this.x(turns[number + 1].time) - 2 : this.width - MARGIN;
      const room = Math.max(3, Math.min(next - left, 260));
      const words = room > 16 ? fitText(pen, `${glyph} ${turn.text}`, room - 9) : "";
      const width = words ? Math.min(room, pen.measureText(words).width + 9) : Math.min(room, 5);
      row.boxes.push([left, width, turn]);
      pen.globalAlpha = isHollow ? 0.12 : 0.22;
      pen.fillStyle = colour;
      pen.fillRect(left, row.top + 1, width, row.height - 3);
      pen.globalAlpha = 1;
      if (isHollow) { pen.strokeStyle = colour; pen.setLineDash([3, 2]); pen.strokeRect(left + 0.5, row.top + 1.5, width - 1, row.height - 4); pen.setLineDash([]); }
      pen.fillRect(left, row.top + 1, 2.5, row.height - 3);
      pen.fillStyle = this.colours.ink;
      if (words) pen.fillText(words, left + 6, row.top + row.height / 2);
    }
  }

  paint_links(pen, row, data) {
    let before = "";
    for (const turn of data.responses) {
      if (turn.link === null || turn.link === undefined) continue;
      const wanted = data.references[turn.link];
      if (Math.max(turn.time, wanted.time) < this.view.start || Math.min(turn.time, wanted.time) > this.view.end) continue;
      const colour = this.colours[turn.verdict] ?? this.colours.ink;
      const [from, to] = [this.x(wanted.time) + 1, this.x(turn.time) + 1], place = `${Math.round(from)} ${Math.round(to)}${colour}`;
      if (place === before) continue;
      before = place;
      pen.strokeStyle = colour;
      pen.lineWidth = 1.5;
      line(pen, from, row.top - 2, to, row.top + row.height + 1);
      pen.lineWidth = 1;
    }
  }

  paint_step(pen, row, data) {
    const bands = bandsOf(data);
    const height = (row.height - 3) / bands.length;
    bands.forEach((name, place) => {
      const band = data.bands[name][row.step] ?? [];
      const top = row.top + place * height;
      const from = Math.max(0, countUpTo(band, frameAt(data, this.view.start), (piece) => piece[0]) - 1);
      for (let number = from; number < band.length; number += 1) {
        const [frame, state] = band[number];
        const start = frame < 0 ? 0 : timeOf(data, frame);
        if (start > this.view.end) break;
        const after = number + 1 < band.length ? timeOf(data, band[number + 1][0]) : name === "model" ? data.reached : data.duration_s;
        this.paintState(pen, STATES[state], this.x(start), this.x(after), top, height);
      }
    });
    this.hatch ??= createHatching(pen, this.colours.ink);
    pen.fillStyle = this.hatch;
    const differences = data.differences[row.step];
    let painted = 0; // painted up to this x; a span within two pixels of it is skipped
    for (let number = countUpTo(differences, frameAt(data, this.view.start), (span) => span[1]); number < differences.length; number += 1) {
      const [first, end] = differences[number], left = this.x(timeOf(data, first));
      if (left > this.width) break;
      const right = Math.max(left + 2, this.x(end < data.times.length ? data.times[end] : data.reached));
      if (right > painted + 1) pen.fillRect(Math.max(left, painted), row.top + height, right - Math.max(left, painted), height);
      painted = Math.max(painted, right);
    }
  }

  // Colour and thickness are redundant: a thin line, half a bar, a whole bar.
  paintState(pen, state, left, right, top, height) {
    const share = {not_started: 0.16, in_progress: 0.5, completed: 0.9}[state];
    pen.fillStyle = {not_started: this.colours.faint, in_progress: this.colours.active, completed: this.colours.done}[state];
    pen.fillRect(left, top + height * (1 - share) / 2, Math.max(1, right - left), height * share);
  }

  paint_trace(pen, row, data, shown) {
    const probs = data[row.name], colour = this.colours[row.name];
    pen.strokeStyle = this.colours.grid;
    for (const prob of [0, 1]) line(pen, GUTTER, this.traceY(row, prob), this.width - MARGIN, this.traceY(row, prob));
    pen.strokeStyle = colour;
    pen.lineWidth = 1.4;
    this.paintCurve(pen, data, row.name, (prob) => this.traceY(row, prob));
    const y = Math.round(this.traceY(row, shown.thresholds[row.name])) + 0.5;
    pen.setLineDash([5, 4]);
    line(pen, GUTTER, y, this.width - MARGIN, y);
    pen.setLineDash([]);
    pen.lineWidth = 1;
    pen.fillStyle = colour;
    pen.fillRect(this.width - MARGIN - 5, y - 4, 9, 8);
    const counts = shown.counts[row.name];
    this.paintMarks(pen, data, counts.hits, (x, frame) => dot(pen, x, this.traceY(row, probs[frame])), data.has_reference ? this.colours.matched : colour);
    this.paintMarks(pen, data, counts.alarms, (x, frame) => triangle(pen, x, this.traceY(row, probs[frame])), this.colours.redundant);
    pen.lineWidth = 1.8;
    this.paintMarks(pen, data, counts.misses, (x) => cross(pen, x, row.top + row.height - 5), this.colours.missed);
    pen.lineWidth = 1;
  }

  paint_strip(pen, row, data) {
    const bottom = row.top + row.height - 2, height = row.height - 4;
    pen.strokeStyle = this.colours.latency;
    this.paintCurve(pen, data, "latency", (value) => bottom - Math.min(1, value / data.latency_most) * height);
    pen.strokeStyle = this.colours.ink;
    this.paintCurve(pen, data, "cache", (value) => bottom - value / data.refresh_at * height);
    pen.setLineDash([2, 2]);
    this.paintMarks(pen, data, data.refreshed, (x) => { line(pen, x, 0, x, bottom); pen.fillText("↻", x + 6, row.top + 6); }, this.colours.ink);
    pen.setLineDash([]);
  }

  // The tooltip's text for a point; null for none.
  describe(data, x, y) {
    const row = this.rowAt(y);
    if (!row) return null;
    data = row.of ?? data;
    if (x < GUTTER) return row.kind === "step" ? row.label : null;
    const time = this.time(x), frame = frameAt(data, time);
    const lists = {user: data.userTurns, reference: data.referenceTurns, said: data.responses};
    if (lists[row.kind]) {
      const turn = lists[row.kind][countUpTo(lists[row.kind], this.time(x + 2), (item) => item.time) - 1];
      return turn && x - this.x(turn.time) < 260 ? `${clockText(turn.time)}  ${turn.text}` : null;
    }
    if (row.kind === "step" && data.isReferenceAlone) return stepText(row, data, gridFrame(data, time));
    if (!data.times.length) return null;
    if (row.kind === "step") return stepText(row, data, frame);
    const at = clockText(data.times[frame]);
    if (row.kind === "trace") return `${at}  ${row.name} ${data[row.name][frame].toFixed(3)}`;
    if (row.kind === "strip") return `${at}  ${data.cache[frame]} tokens, ${modelTimeText(data.latency[frame])}`;
    return null;
  }
}

// The states of a step at a frame: the model's, the reference's.
function stepText(row, data, frame) {
  const words = (name) => data.state_words[stateAt(data.bands[name][row.step] ?? [], frame)] ?? "";
  return `${row.label}: ${bandsOf(data).toReversed().map((name) => (name === "model" ? words(name) : `reference ${words(name)}`)).join("; ")}`;
}
