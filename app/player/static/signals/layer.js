// The layer of the signals over the lanes: one figure per run, the handles of the thresholds, and plotly.js when it is
// needed.

import { createNode } from "../dom/dom.js";
import { loadPlotly, pace } from "../dom/plotly.js";
import { CONFIG, LEGEND_HEIGHT, signalFigure } from "./figure.js";
import { thresholdWords } from "../state/data.js";
import { GUTTER, MARGIN } from "../canvas/axis.js";
import { resizeCanvas } from "../canvas/canvas.js";
import { paintMarks, valueAt, yOf } from "./decision_marks.js";

export class SignalLayer {
  // `handlers` are those of figures and handles, `onLoad()`, and `whenIdle()`, a promise that plotly.js waits for.
  constructor(element, url, handlers) {
    Object.assign(this, { element, url, handlers, plotly: null, isRequested: false, figures: [] });
    this.note = element.appendChild(createNode("p", "ss-note-signals"));
    this.handles = new ThresholdHandles(element, handlers);
  }

  paint(timeline, shown) {
    const rows = timeline.rows.filter(({ kind }) => kind === "trace"),
      [first, second] = [false, true].map((isSecond) => rows.filter((row) => row.isSecond === isSecond)),
      movable = first.filter(({ signal }) => signal.canMove);
    this.handles.paint(timeline, movable, shown.thresholds);
    const groups = [first, second].filter((group) => group.length);
    if (groups.length) this.load();
    this.note.hidden = !groups.length || this.plotly !== null;
    if (!this.note.hidden) this.note.style.top = `${groups[0][0].top}px`;
    if (!this.plotly) return;
    while (this.figures.length > groups.length) this.figures.pop().remove();
    groups.forEach((group, number) => {
      this.figures[number] ??= new SignalFigure(this.plotly, this.element, this.handlers);
      this.figures[number].paint(timeline, group, group[0].isSecond ? group[0].run.shown : shown);
    });
  }

  hold(isHeld) {
    for (const figure of this.figures) figure.hold(isHeld);
  }

  async load() {
    if (this.isRequested) return;
    this.isRequested = true;
    this.note.textContent = "loading the signals…";
    await this.handlers.whenIdle();
    try {
      this.plotly = await loadPlotly(this.url);
    } catch {
      this.note.textContent =
        "The signals cannot be drawn: plotly.js did not load. Decisions, thresholds and counts work; " +
        "reload the page to try again.";
      return;
    }
    this.handlers.onLoad();
  }

  clear() {
    this.paint({ rows: [] }, { thresholds: {} });
  }
}

const COSTS_APART = 12,
  GROWING_COSTS_APART = 50; // time between two drawings in multiples of the time of one

// The height of a threshold within its row.
const heightOf = (row, { thresholds }) => yOf(row, thresholds[row.name] ?? 0) - row.top;

// A figure of the layer. Plotly needs tens of milliseconds for it, so while view or thresholds move, its drawn content
// is moved with them once per animation frame, and Plotly draws again after a multiple of that time. Marks are painted
// each time.
class SignalFigure {
  // `handlers` have `onZoom(start, end)` and `onReset()`.
  constructor(plotly, layer, handlers) {
    this.plot = createNode("div", "ss-figure", "", { role: "figure", ariaLabel: "Signals" });
    this.marks = createNode("canvas", "ss-marks");
    layer.prepend(this.plot, this.marks);
    Object.assign(this, { plotly, handlers, wanted: null, drawn: null, isHeld: false });
    this.requestDrawing = pace(
      () => this.draw(),
      () => (this.wanted.rows[0].run.is_finished ? COSTS_APART : GROWING_COSTS_APART),
    );
  }

  // Shows the rows of a run as soon as possible: see above.
  paint(timeline, rows, settings) {
    this.wanted = { timeline, rows, settings };
    const { drawn, plot } = this,
      isOther = drawn?.run !== rows[0].run || drawn.width !== timeline.width;
    plot.style.top = `${rows[0].top - LEGEND_HEIGHT}px`;
    plot.style.visibility = isOther ? "hidden" : "";
    plot.style.setProperty("--ss-inner", `${timeline.inner}px`);
    if (!isOther) this.move();
    this.paintMarks();
    this.requestDrawing(isOther);
  }

  // Paints the marks of now, without the kinds that are hidden in the legend.
  paintMarks() {
    const { timeline, rows, settings } = this.wanted,
      traces = (this.plot.data ?? []).filter(({ visible }) => visible === "legendonly"),
      hidden = new Set(traces.map(({ legendgroup }) => legendgroup)),
      top = rows[0].top - 9,
      height = rows.at(-1).top + rows.at(-1).height + 9 - top,
      pen = resizeCanvas(this.marks, timeline.width, height);
    Object.assign(this.marks.style, { top: `${top}px`, width: `${timeline.width}px`, height: `${height}px` });
    pen.clearRect(0, 0, timeline.width, height);
    for (const row of rows) row.hidden = hidden;
    paintMarks(pen, timeline, rows, settings.counts, top);
  }

  // Holds the drawing still, as it should be now, while the pointer draws a box over it.
  hold(isHeld) {
    const { drawn, wanted } = this;
    if (isHeld && drawn && (drawn.start !== wanted.timeline.view.start || drawn.end !== wanted.timeline.view.end))
      this.draw();
    this.isHeld = isHeld;
    if (!isHeld && wanted) this.requestDrawing();
  }

  draw() {
    if (this.isHeld || !this.plot.isConnected) return;
    const { timeline, rows, settings } = this.wanted;
    const { data, layout, isDense } = signalFigure(timeline, rows, settings);
    this.plot.classList.toggle("ss-dense", isDense);
    this.plotly.react(this.plot, data, layout, CONFIG);
    if (!this.drawn) this.listen();
    this.drawn = {
      run: rows[0].run,
      width: timeline.width,
      ...timeline.view,
      heights: rows.map((row) => heightOf(row, settings)),
    };
    this.move();
    this.plot.style.visibility = "";
  }

  listen() {
    const { plot, handlers } = this;
    plot.on("plotly_relayout", (change) => {
      const [start, end] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (start === undefined) return;
      Object.assign(this.drawn, { start, end });
      handlers.onZoom(start, end);
    });
    plot.on("plotly_restyle", () => this.paintMarks()); // by a click in the legend
    plot.on("plotly_doubleclick", () => handlers.onReset());
  }

  // Moves the drawn content to the view and the thresholds of now.
  move() {
    const { drawn, plot } = this,
      { timeline, rows, settings } = this.wanted,
      { start, end } = timeline.view,
      seconds = end - start;
    const shift = ((drawn.start - start) / seconds) * timeline.inner,
      scale = (drawn.end - drawn.start) / seconds;
    const transform = shift || scale !== 1 ? `translateX(${shift}px) scaleX(${scale})` : "";
    for (const traces of plot.querySelectorAll(".scatterlayer")) traces.style.transform = transform;
    rows.forEach((row, number) => {
      const shape = plot.querySelector(`.shapelayer [data-index="${number}"]`);
      if (shape) shape.style.transform = `translateY(${heightOf(row, settings) - drawn.heights[number]}px)`;
    });
  }

  remove() {
    if (this.drawn) this.plotly.purge(this.plot);
    this.marks.remove();
    this.plot.remove();
  }
}

const STEPS = {
  ArrowUp: 0.01,
  ArrowRight: 0.01,
  ArrowDown: -0.01,
  ArrowLeft: -0.01,
  PageUp: 0.1,
  PageDown: -0.1,
  Home: -1,
  End: 1,
};

class ThresholdHandles {
  // `onDrag(name, valueAt, event)` gets the pointer's first event, `onMove(name, value)` a value of the keys.
  constructor(layer, { onDrag, onMove }) {
    Object.assign(this, { layer, onDrag, onMove, byName: new Map() });
  }

  paint(timeline, rows, thresholds) {
    for (const [name, { element }] of this.byName)
      if (!rows.some((row) => row.name === name)) {
        element.remove();
        this.byName.delete(name);
      }
    for (const row of rows) {
      if (!this.byName.has(row.name)) this.byName.set(row.name, this.create(row.name));
      const handle = this.byName.get(row.name),
        { element } = handle,
        { low, high, policy, colour } = row.signal,
        value = thresholds[row.name] ?? high;
      Object.assign(handle, { row, value });
      element.firstChild.style.background = timeline.colours[colour];
      element.style.transform = `translateY(${yOf(row, value)}px)`;
      element.style.width = `${timeline.width - GUTTER - MARGIN + 4}px`;
      element.ariaLabel = `${row.label} threshold`;
      Object.assign(element, { ariaValueMin: low, ariaValueMax: high, ariaValueNow: value });
      element.ariaValueText = thresholdWords(policy, value);
    }
  }

  create(name) {
    const press = (event) => event.button || this.onDrag(name, (y) => valueAt(handle.row, y), event);
    const onKey = (event) => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      const { low, high } = handle.row.signal,
        step = STEPS[event.key] * (high - low);
      this.onMove(name, Math.min(high, Math.max(low, Number((handle.value + step).toFixed(12)))));
    };
    const element = createNode("div", `ss-handle ss-${name}`, createNode("i"), {
      role: "slider",
      tabIndex: 0,
      ariaOrientation: "vertical",
      onpointerdown: press,
      onkeydown: onKey,
    });
    const handle = { element: this.layer.appendChild(element) };
    return handle;
  }
}
