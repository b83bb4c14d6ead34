// The timeline: the lanes on one canvas over one axis of time. Only the part in view is drawn, and a trace has at most
// two points per pixel.

import { defineLane } from "../lanes/lane.js";
import { LANES } from "../lanes/table.js";
import { clockText } from "../state/data.js";
import { Axis, MARGIN } from "../canvas/axis.js";
import { line, resizeCanvas } from "../canvas/canvas.js";

const TOP = 4,
  REACH_PX = 8, // free space above; marks at the start reach into the labels
  FIGURE_GAP = 8; // most free space above a lane of a figure: Plotly's legend is not in it
const COLOURS =
  "speak update matched low mismatched redundant missed reference user active done ink faint grid shade latency".split(
    " ",
  );
const SECONDS_PER_TICK = [0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 3600];
const axis = defineLane({ kind: "axis", height: 18 });

export function coloursOf(style) {
  return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--ss-${name}`).trim()]));
}

export class Timeline extends Axis {
  // The timeline of a canvas in the page, or of a figure, which sets its pen, font and colours.
  constructor(canvas) {
    super();
    this.canvas = canvas;
    this.isFigure = canvas === null;
    this.run = null;
    this.rows = [];
    this.isDetailed = false;
    this.openSteps = []; // whose rows are below the strip of all steps
    this.shown = { thresholds: {}, counts: {} }; // what was painted last
    if (canvas) this.readColours();
  }

  readColours() {
    const style = getComputedStyle(this.canvas);
    this.colours = { ...coloursOf(style), block: style.getPropertyValue("--block-background-fill").trim() };
    this.font = `12px ${style.fontFamily}`;
    this.hatch = null;
  }

  // Arranges the rows of a run and of the second run below it; returns their total height in pixels.
  arrange(run) {
    this.run = run;
    this.rows = [];
    let top = TOP;
    const add = (lane, of, isSecond = false) => {
      const rows = lane.appliesTo(of, isSecond, this) ? lane.rows(of, this) : [];
      if (rows.length) top += this.isFigure ? Math.min(lane.above, FIGURE_GAP) : lane.above;
      for (const row of rows) {
        this.rows.push({ kind: lane.kind, height: lane.height, ...row, lane, run: of, isSecond, top });
        top += this.rows.at(-1).height + lane.gap;
      }
      if (rows.length) top += lane.below - lane.gap;
    };
    for (const lane of LANES) add(lane, run);
    if (run.other) for (const lane of LANES) add(lane, run.other, true);
    add(axis, run);
    return top;
  }

  resize(width, height) {
    this.width = width;
    this.height = height;
    this.canvas.style.height = `${height}px`;
    this.pen = resizeCanvas(this.canvas, width, height);
  }

  clear() {
    this.run = null;
    this.rows = [];
    this.pen?.clearRect(0, 0, this.width, this.height);
  }

  paint(shown) {
    const { pen } = this;
    this.shown = shown;
    if (!pen || !this.run) return;
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = this.font;
    pen.textBaseline = "middle";
    this.paintGrid(shown);
    for (const row of this.rows) {
      const settings = row.isSecond ? row.run.shown : shown;
      pen.textAlign = "left";
      pen.fillStyle = this.colours.ink;
      row.lane.paintLabel(this, row, settings);
      pen.save();
      pen.beginPath();
      const reach = this.isFigure ? 0 : REACH_PX - 1;
      pen.rect(this.gutter - reach, 0, this.inner + 2 * reach, this.height);
      pen.clip();
      row.lane.paint(this, row, settings);
      pen.restore();
    }
  }

  paintGrid(shown) {
    const { pen, run } = this,
      right = this.width - MARGIN,
      bottom = this.rows.at(-1).top;
    const seconds = this.view.end - this.view.start;
    const step = SECONDS_PER_TICK.find((s) => seconds / s <= this.inner / 70) ?? 7200;
    const unreached = run.isReferenceAlone ? this.width : Math.max(this.gutter, this.x(run.reached));
    pen.fillStyle = this.colours.shade;
    if (unreached < right) pen.fillRect(unreached, 0, right - unreached, bottom);
    const [from, to] = (shown.region ?? [0, 0]).map((time) => Math.min(right, Math.max(this.gutter, this.x(time))));
    pen.fillStyle = this.colours.grid;
    if (shown.region) pen.fillRect(from, 0, to - from, bottom);
    pen.strokeStyle = this.colours.grid;
    pen.fillStyle = this.colours.ink;
    pen.textAlign = "center";
    for (let tick = Math.ceil(this.view.start / step) * step; tick <= this.view.end + 1e-9; tick += step) {
      const x = Math.round(this.x(tick)) + 0.5;
      line(pen, x, 0, x, bottom + 3);
      pen.fillText(clockText(tick, step < 1 ? 1 : 0), x, bottom + 11);
    }
  }

  rowAt(y) {
    return this.rows.find((row) => y >= row.top && y < row.top + row.height);
  }

  // The tooltip's text for a point; null for none.
  describe(x, y) {
    const row = this.rowAt(y);
    if (!row) return null;
    return x < this.gutter - REACH_PX ? row.lane.describeLabel(row, this.shown) : row.lane.describe(this, row, x, y);
  }

  // The keys of the events at a point, and their time; null where no event has a mark.
  markAt(x, y) {
    const row = this.firstRowAt(x, y),
      found = row?.lane.markAt(this, row, x, y);
    return found?.keys.length ? found : null;
  }

  // The handle at a point: its cursor, its turn, and which of `edges` of the turn it moves; null for none.
  gripAt(x, y) {
    const row = this.firstRowAt(x, y);
    return row?.lane.gripAt(this, row, x, y) ?? null;
  }

  // The row of the first run at a point: the second one is not judged here.
  firstRowAt(x, y) {
    const row = this.rowAt(y);
    return row && !row.isSecond && x >= this.gutter - REACH_PX ? row : null;
  }
}
