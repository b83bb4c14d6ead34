// The layer of the signals over the lanes: one figure per run, the handles of the thresholds, and plotly.js when it is
// needed.

import { createNode } from "../dom/dom.js";
import { loadPlotly } from "../dom/plotly.js";
import { SignalFigure } from "./drawing.js";
import { ThresholdHandles } from "./handles.js";

export class SignalLayer {
  // `handlers` are those of figures and handles, `onLoad()`, and `whenIdle()`, a promise that plotly.js waits for.
  constructor(element, url, handlers) {
    Object.assign(this, {
      element,
      url,
      handlers,
      plotly: null,
      isRequested: false,
      isMarkHovered: false,
      figures: [],
    });
    this.note = element.appendChild(createNode("p", "ss-note-signals"));
    this.handles = new ThresholdHandles(element, handlers);
  }

  paint(timeline, shown) {
    const rows = timeline.rows.filter(({ kind }) => kind === "trace"),
      [first, second] = [false, true].map((isSecond) => rows.filter((row) => row.isSecond === isSecond));
    this.handles.paint(
      timeline,
      first.filter(({ signal }) => signal.canMove),
      shown.thresholds,
    );
    const groups = [first, second].filter((group) => group.length);
    if (groups.length) this.load();
    this.note.hidden = !groups.length || this.plotly !== null;
    if (!this.note.hidden) this.note.style.top = `${groups[0][0].top}px`;
    if (!this.plotly) return;
    while (this.figures.length > groups.length) this.figures.pop().remove();
    groups.forEach((group, number) => {
      this.figures[number] ??= new SignalFigure(this.plotly, this.element, this.figureHandlers());
      this.figures[number].paint(timeline, group, group[0].isSecond ? group[0].run.shown : shown);
    });
  }

  figureHandlers() {
    const onHover = (isOver) => {
      this.isMarkHovered = isOver;
      this.handlers.onHover(isOver);
    };
    return { ...this.handlers, onHover };
  }

  hold(isHeld) {
    for (const figure of this.figures) figure.hold(isHeld);
  }

  load() {
    if (this.isRequested) return;
    this.isRequested = true;
    this.note.textContent = "loading the signals…";
    this.handlers
      .whenIdle()
      .then(() => loadPlotly(this.url))
      .then(
        (plotly) => {
          this.plotly = plotly;
          this.handlers.onLoad();
        },
        () => {
          this.note.textContent =
            "The signals cannot be drawn: plotly.js did not load. Decisions, thresholds and counts work; " +
            "reload the page to try again.";
        },
      );
  }

  clear() {
    this.paint({ rows: [] }, { thresholds: {} });
  }
}
