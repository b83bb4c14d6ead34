// Precision and recall of the decisions over all thresholds. A click on a point moves the threshold there.

import { sleep } from "../state/increments.js";
import { createNode, escapeMarkup } from "../dom/dom.js";
import { loadPlotly, pace } from "../dom/plotly.js";
import { Curve, rates, thresholdWords } from "../state/data.js";
import { baseLayout, CONFIG } from "../signals/figure.js";
import { decidingSignals } from "../state/signals.js";
import { whyUnscored } from "../state/stops.js";

const CHUNK_MS = 10; // of computing, between which the page answers
const MAX_LETTERS = 60; // of a title

export function drawCurves(player, panel, data) {
  const { curves } = player;
  const problem = !data.has_reference
    ? whyUnscored(data)
    : data.isReferenceAlone && "There is no run to score: this is the reference alone.";
  if (problem) return showNote(player, panel, problem);
  curves.requestDrawing ??= pace(
    () => draw(player),
    () => 8,
  );
  if (curves.data !== data) Object.assign(curves, { data, curves: {} });
  const hasThreshold = decidingSignals(data).some((signal) => signal.hasThreshold),
    mark = hasThreshold ? "the threshold now; a click on a curve moves it." : "the run; it has no threshold.",
    title = player.settings.can_run ? "Saved as a file by 'figure' below the timeline" : "",
    words = `Decisions within ${data.tolerance_s} s of the reference. ● is ${mark}`;
  if (!curves.plot?.isConnected) {
    curves.plot = createNode("div", "ss-curve", "", { role: "figure" });
    panel.replaceChildren(createNode("p", "ss-dim"), curves.plot);
  }
  Object.assign(panel.firstChild, { textContent: words, title });
  curves.panel = panel;
  curves.requestDrawing();
}

function showNote(player, panel, text) {
  player.curves.plot = null;
  panel.replaceChildren(createNode("p", "ss-dim", text));
}

async function draw(player) {
  const { data, panel, plot, curves } = player.curves,
    points = {},
    signals = decidingSignals(data),
    isGrowing = player.receiver.run?.data === data;
  for (const { name } of signals)
    points[name] = await collect((curves[name] ??= new Curve(data, name, isGrowing)).points());
  let plotly;
  try {
    plotly = await loadPlotly(player.settings.plotly_url);
  } catch {
    return showNote(player, panel, "The curves cannot be drawn: plotly.js did not load. Reload the page to try again.");
  }
  if (player.curves.data !== data || player.curves.plot !== plot || !plot?.clientWidth || player.tab !== "curves")
    return;
  const isFirst = !plot.layout,
    now = Object.fromEntries(signals.map(({ name }) => [name, rates(player.shown.counts[name])]));
  plot.ariaLabel = signals.map(({ name, title }) => rateText(title, now[name])).join("; ");
  const traces = signals.flatMap((signal, number) =>
    tracesOf(player, signal, number, points[signal.name], now[signal.name]),
  );
  plotly.react(plot, traces, layoutOf(player, panel, plot, signals, now), CONFIG);
  if (isFirst) plot.on("plotly_click", ({ points: [{ customdata }] }) => player.moveThreshold(...customdata));
}

async function collect(points) {
  const found = [];
  let began = performance.now();
  for (const point of points) {
    found.push(point);
    if (performance.now() - began < CHUNK_MS) continue;
    await sleep();
    began = performance.now();
  }
  return found.filter(({ precision, recall }) => !Number.isNaN(precision + recall));
}

// A title for Plotly, which reads a part of HTML.
export const plainText = (text) => escapeMarkup(text.length > MAX_LETTERS ? `${text.slice(0, MAX_LETTERS)}…` : text);
const rateText = (name, { precision, recall }) =>
  `${name}: precision ${precision.toFixed(2)}, recall ${recall.toFixed(2)}`.replaceAll("NaN", "undefined");
const axisName = (letter, number) => `${letter}${number ? number + 1 : ""}`;

function tracesOf(player, { name, title, policy, colour: paint }, number, points, now) {
  const colour = player.timeline.colours[paint],
    current = { ...now, threshold: player.shown.thresholds[name] };
  const textOf = (point) =>
    `threshold ${thresholdWords(policy, point.threshold)}<br>${rateText(plainText(title), point)}`;
  const trace = (list) => ({
    x: list.map(({ recall }) => recall),
    y: list.map(({ precision }) => precision),
    customdata: list.map(({ threshold }) => [name, threshold]),
    hovertext: list.map(textOf),
    hoverinfo: "text",
    xaxis: axisName("x", number),
    yaxis: axisName("y", number),
  });
  return [
    { ...trace(points), mode: "lines", line: { color: colour, width: 1.6 } },
    {
      ...trace(Number.isNaN(now.precision + now.recall) ? [] : [current]),
      mode: "markers",
      marker: { color: colour, size: 10 },
      cliponaxis: false,
    },
  ];
}

function layoutOf(player, panel, plot, signals, now) {
  const { colours } = player.timeline,
    base = baseLayout(player.timeline);
  const axis = {
    range: [-0.03, 1.05],
    tickvals: [0, 0.5, 1],
    tickfont: { size: 11 },
    gridcolor: colours.grid,
    zeroline: false,
    fixedrange: true,
  };
  const titled = (text) => ({ standoff: 4, font: base.font, text });
  const axes = signals.map((_, number) => {
    const bottom = 1 - (number + 1) / signals.length,
      domain = [bottom, bottom + 0.8 / signals.length],
      isLast = number === signals.length - 1,
      [x, y] = [axisName("x", number), axisName("y", number)];
    return {
      [axisName("xaxis", number)]: {
        ...axis,
        anchor: y,
        showticklabels: isLast,
        title: titled(isLast ? "recall" : ""),
      },
      [axisName("yaxis", number)]: { ...axis, anchor: x, domain, title: titled("precision") },
    };
  });
  const headings = signals.map(({ name, title, colour }, number) => ({
    text: rateText(plainText(title), now[name]),
    xref: "paper",
    x: 0,
    xanchor: "left",
    yref: `${axisName("y", number)} domain`,
    y: 1,
    yanchor: "bottom",
    showarrow: false,
    font: { ...base.font, color: colours[colour] },
  }));
  return {
    ...base,
    width: plot.clientWidth,
    height: Math.max(230, panel.clientHeight - panel.firstChild.offsetHeight - 12),
    margin: { l: 44, r: 8, t: 0, b: 34, autoexpand: false },
    showlegend: false,
    dragmode: false,
    annotations: headings,
    ...Object.assign({}, ...axes),
  };
}
