// A figure in the page. Plotly needs tens of milliseconds for it, so while view or thresholds move, its drawn content
// is moved with them once per animation frame, and Plotly draws again after a multiple of that time. Marks are painted
// each time.

import { createNode } from "../dom/dom.js";
import { pace } from "../dom/plotly.js";
import { CONFIG, LEGEND_HEIGHT, signalFigure } from "./figure.js";
import { paintMarks, yOf } from "./decision_marks.js";
import { resizeCanvas } from "../timeline/canvas.js";

const COSTS_APART = 12,
  GROWING_COSTS_APART = 50; // time between two drawings in multiples of the time of one

// The height of a threshold within its row.
const heightOf = (row, { thresholds }) => yOf(row, thresholds[row.name] ?? 0) - row.top;

export class SignalFigure {
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

  // Shows the rows of a run as soon as possible: see the head of this file.
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
      hidden = (this.plot.data ?? []).filter(({ visible }) => visible === "legendonly"),
      top = rows[0].top - 9,
      height = rows.at(-1).top + rows.at(-1).height + 9 - top,
      pen = resizeCanvas(this.marks, timeline.width, height);
    Object.assign(this.marks.style, { top: `${top}px`, width: `${timeline.width}px`, height: `${height}px` });
    pen.clearRect(0, 0, timeline.width, height);
    paintMarks(pen, timeline, rows, settings.counts, {
      hidden: new Set(hidden.map((trace) => trace.legendgroup)),
      top,
    });
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
