// Precision and recall of the decisions over all thresholds. A click on a point moves the threshold there.

import { createNode } from "../dom/dom.js";
import { pace } from "../dom/pace.js";
import { loadPlotly } from "../dom/plotly.js";
import { Curve, rates, thresholdWords } from "../state/data.js";
import { plainText } from "../signals/hover_text.js";
import { decidingSignals } from "../state/signals.js";

const CHUNK_MS = 10; // of computing, between which the page answers
const CONFIG = { displayModeBar: false, doubleClick: false, showAxisDragHandles: false, showTips: false };

export function drawCurves(player, panel, data) {
  const problem = !data.has_reference
    ? "There is no reference to score against."
    : data.isReferenceAlone
      ? "There is no run to score: this is the reference alone."
      : "";
  if (problem) return showNote(player, panel, problem);
  player.curves.requestDrawing ??= pace(
    () => draw(player),
    () => 8,
  );
  if (player.curves.data !== data) Object.assign(player.curves, { data, curves: {} });
  if (!player.curves.plot?.isConnected) {
    player.curves.plot = createNode("div", "ss-curve");
    player.curves.plot.setAttribute("role", "figure");
    panel.replaceChildren(createNode("p", "ss-dim", ""), player.curves.plot);
  }
  const hasThreshold = decidingSignals(data).some((signal) => signal.hasThreshold);
  panel.firstChild.textContent =
    `Decisions within ${data.tolerance_s} s of the reference. ` +
    (hasThreshold ? "● is the threshold now; a click on a curve moves it." : "● is the run; it has no threshold.");
  panel.firstChild.title = player.settings.can_run ? "Saved as a file by 'figure' below the timeline" : "";
  player.curves.panel = panel;
  player.curves.requestDrawing();
}

function showNote(player, panel, text) {
  player.curves.plot = null;
  panel.replaceChildren(createNode("p", "ss-dim", text));
}

async function draw(player) {
  const { data, panel, plot } = player.curves,
    points = {},
    signals = decidingSignals(data),
    names = signals.map(({ name }) => name);
  for (const name of names)
    points[name] = await collect(
      (player.curves.curves[name] ??= new Curve(data, name, player.receiver.run?.data === data)).points(),
    );
  let plotly;
  try {
    plotly = await loadPlotly(player.settings.plotly_url);
  } catch {
    return showNote(player, panel, "The curves cannot be drawn: plotly.js did not load. Reload the page to try again.");
  }
  if (player.curves.data !== data || player.curves.plot !== plot || !plot?.clientWidth || player.tab !== "curves")
    return;
  const isFirst = !plot.layout,
    now = Object.fromEntries(names.map((name) => [name, rates(player.shown.counts[name])]));
  plot.setAttribute("aria-label", signals.map(({ name, title }) => rateText(title, now[name])).join("; "));
  plotly.react(
    plot,
    signals.flatMap((signal, number) => tracesOf(player, signal, number, points[signal.name], now[signal.name])),
    layoutOf(player, panel, plot, signals, now),
    CONFIG,
  );
  if (isFirst) plot.on("plotly_click", ({ points: [{ customdata }] }) => player.moveThreshold(...customdata));
}

// Collects the points of a generator, with pauses.
async function collect(points) {
  const found = [];
  let began = performance.now();
  for (const point of points) {
    found.push(point);
    if (performance.now() - began < CHUNK_MS) continue;
    await new Promise((done) => {
      setTimeout(done);
    });
    began = performance.now();
  }
  return found.filter(({ precision, recall }) => !Number.isNaN(precision + recall));
}

const rateText = (name, { precision, recall }) =>
  `${name}: precision ${precision.toFixed(2)}, recall ${recall.toFixed(2)}`.replaceAll("NaN", "undefined");
const axisName = (letter, number) => `${letter}${number ? number + 1 : ""}`;

function tracesOf(player, { name, title, policy, colour: paint }, number, points, now) {
  const colour = player.timeline.colours[paint],
    current = { ...now, threshold: player.shown.thresholds[name] };
  const trace = (list) => ({
    x: list.map(({ recall }) => recall),
    y: list.map(({ precision }) => precision),
    customdata: list.map(({ threshold }) => [name, threshold]),
    hovertext: list.map(
      (point) => `threshold ${thresholdWords(policy, point.threshold)}<br>${rateText(plainText(title), point)}`,
    ),
    hoverinfo: "text",
    type: "scatter",
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
  const { colours, font } = player.timeline,
    text = { family: font.replace(/^\S+ /, ""), size: 12, color: colours.ink };
  const axis = {
    range: [-0.03, 1.05],
    tickvals: [0, 0.5, 1],
    tickfont: { size: 11 },
    gridcolor: colours.grid,
    zeroline: false,
    fixedrange: true,
  };
  const title = { standoff: 4, font: text };
  const axes = signals.flatMap((_, number) => {
    const bottom = 1 - (number + 1) / signals.length,
      top = bottom + 0.8 / signals.length,
      isLast = number === signals.length - 1;
    return [
      [
        axisName("xaxis", number),
        {
          ...axis,
          anchor: axisName("y", number),
          showticklabels: isLast,
          title: { ...title, text: isLast ? "recall" : "" },
        },
      ],
      [
        axisName("yaxis", number),
        { ...axis, anchor: axisName("x", number), domain: [bottom, top], title: { ...title, text: "precision" } },
      ],
    ];
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
    font: { ...text, color: colours[colour] },
  }));
  return {
    width: plot.clientWidth,
    height: Math.max(230, panel.clientHeight - panel.firstChild.offsetHeight - 12),
    margin: { l: 44, r: 8, t: 0, b: 34, autoexpand: false },
    font: text,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    hovermode: "closest",
    dragmode: false,
    hoverlabel: { align: "left", font: text, bgcolor: colours.block },
    annotations: headings,
    ...Object.fromEntries(axes),
  };
}
