// The layer of the signals over the lanes: one figure per run, the handles of the thresholds, and plotly.js when it is
// needed.

import { createNode } from "../dom/dom.js";
import { loadPlotly } from "../dom/plotly.js";
import { SignalFigure } from "./drawing.js";
import { thresholdWords } from "../state/data.js";
import { GUTTER, MARGIN } from "../timeline/axis.js";
import { valueAt, yOf } from "./decision_marks.js";

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
