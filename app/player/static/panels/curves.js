// Precision and recall over all thresholds, drawn as SVG.

import { Curve, DECISIONS, rates } from "../state/data.js";
import { createNode } from "../dom/dom.js";
import { ui } from "../state/state.js";

const curves = { data: null };
const CURVE = { width: 260, height: 106, left: 26, top: 6, size: 68, stretch: 3.25 };

export function drawCurves(panel, data, shown) {
  if (!data.has_reference) return void panel.replaceChildren(createNode("p", "ss-dim", "There is no reference to score against."));
  if (data.isReferenceAlone) return void panel.replaceChildren(createNode("p", "ss-dim", "There is no run to score: this is the reference alone."));
  if (curves.data !== data) Object.assign(curves, { data, ...Object.fromEntries(DECISIONS.map((name) => [name, new Curve(data, name, ui.receiver.run?.data === data)])) });
  const hint = `Decisions within ${data.tolerance_s} s of the reference. ● is the threshold now.`;
  panel.replaceChildren(createNode("p", "ss-dim", hint), ...DECISIONS.map((name) => drawCurve(data, name, shown)));
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
