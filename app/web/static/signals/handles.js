// The handles of the thresholds over the signals: they are dragged, or moved with the arrow keys.

import { createNode } from "../dom/dom.js";
import { thresholdWords } from "../state/data.js";
import { GUTTER, MARGIN } from "../timeline/axis.js";
import { valueAt, yOf } from "./scale.js";

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

export class ThresholdHandles {
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
        value = thresholds[row.name] ?? row.signal.high;
      Object.assign(handle, { row, value });
      element.firstChild.style.background = timeline.colours[row.signal.colour];
      element.setAttribute("aria-label", `${row.label} threshold`);
      element.setAttribute("aria-valuemin", row.signal.low);
      element.setAttribute("aria-valuemax", row.signal.high);
      element.style.transform = `translateY(${yOf(row, value)}px)`;
      element.style.width = `${timeline.width - GUTTER - MARGIN + 4}px`;
      element.setAttribute("aria-valuenow", value);
      element.setAttribute("aria-valuetext", thresholdWords(row.signal.policy, value));
    }
  }

  create(name) {
    const element = this.layer.appendChild(createNode("div", `ss-handle ss-${name}`)),
      handle = { element };
    const attributes = { role: "slider", tabindex: 0, "aria-orientation": "vertical" };
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(createNode("i"));
    element.addEventListener("pointerdown", (event) => {
      if (!event.button) this.onDrag(name, (y) => valueAt(handle.row, y), event);
    });
    element.addEventListener("keydown", (event) => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      const { low, high } = handle.row.signal,
        step = STEPS[event.key] * (high - low);
      this.onMove(name, Math.min(high, Math.max(low, Number((handle.value + step).toFixed(12)))));
    });
    return handle;
  }
}
