// The Plotly figure of a run's signals: the line of each signal over the other, and the legend. The marks of decisions
// are painted over it (`decision_marks.js`). Heights are those of the timeline, in pixels: one y
// axis for all rows takes a fraction of the time that an axis for each takes.

import { MARGIN } from "../canvas/axis.js";
import { framesInView, isDense, visitColumns } from "../canvas/envelope.js";
import { colourOf, hasScale, marksOf, yOf } from "./decision_marks.js";

export const LEGEND_HEIGHT = 20; // above the first row
const LEGEND_WIDTH = 560; // of all its entries
export const CONFIG = { displayModeBar: false, doubleClick: false, showAxisDragHandles: false, showTips: false };
const NUMBERS = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

// Returns data and layout for the rows of one run, each row with the `name` of its signal, and whether its lines are
// dense. The settings have the thresholds and counts that are shown.
export function signalFigure(timeline, rows, settings) {
  const areCounted = rows.some(({ name }) => name in settings.counts),
    marks = areCounted ? marksOf(rows[0].run) : [];
  const data = [...rows.map((row) => line(timeline, row)), ...marks.map((mark) => sign(timeline, rows, mark))];
  return {
    data,
    layout: layoutOf(timeline, rows, settings),
    isDense: isDense(timeline, ...framesInView(timeline, rows[0].run)),
  };
}

function line(timeline, row) {
  const { x, y } = linePoints(timeline, row.run, row.signal.series),
    colour = timeline.colours[row.signal.colour];
  return {
    x,
    y: y.map((value) => (value === null || !hasScale(row) ? null : yOf(row, value))),
    uid: `${row.name} line`,
    name: row.name,
    showlegend: !row.run.named.length && hasScale(row),
    mode: hasLonePoint(y) ? "lines+markers" : "lines",
    hoverinfo: "skip",
    line: { color: colour, width: 1.4, simplify: false },
    marker: { color: colour, size: 4 },
  };
}

// Whether a known value has unknown neighbours, so that no line leads to it: as in a signal of one value per second.
function hasLonePoint(values) {
  const isKnown = (at) => at >= 0 && at < values.length && !Number.isNaN(values[at]) && values[at] !== null;
  for (let at = 0; at < values.length; at += 1) if (isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1)) return true;
  return false;
}

// The points of a series in view; where a pixel has many values, their minimum and maximum.
export function linePoints(timeline, run, name) {
  const [first, last] = framesInView(timeline, run);
  if (last < 0) return { x: [null], y: [null] };
  if (!isDense(timeline, first, last))
    return { x: run.times.slice(first, last + 1), y: run[name].slice(first, last + 1) };
  const x = [],
    y = [];
  visitColumns(timeline, run, name, first, last, (column, low, high) => {
    const time = timeline.time(column),
      values = low === high ? [low] : [low, high]; // a lone value is one point, which has a marker
    x.push(...values.map(() => time));
    y.push(...values);
  });
  return { x, y };
}

// The entry of a kind of mark in the legend: a trace without points has none.
function sign(timeline, rows, mark) {
  const { kind, label, symbol, size } = mark,
    colour = colourOf(timeline, rows[0], mark);
  return {
    x: [null],
    y: [null],
    uid: `${kind} sign`,
    name: label,
    legendgroup: kind,
    mode: "markers",
    hoverinfo: "skip",
    marker: { color: colour, symbol, size, line: { color: colour, width: kind === "misses" ? 1.8 : 0 } },
  };
}

// The layout of all figures of the player, in the font and colours of the timeline.
export function baseLayout({ colours, font }) {
  const text = { family: font.replace(/^\S+ /, ""), size: 12, color: colours.ink },
    clear = "rgba(0,0,0,0)",
    hoverlabel = { align: "left", font: text, bgcolor: colours.block };
  return { font: text, paper_bgcolor: clear, plot_bgcolor: clear, hovermode: "closest", hoverlabel };
}

function layoutOf(timeline, rows, { thresholds }) {
  const { colours, view } = timeline,
    top = rows[0].top,
    bottom = rows.at(-1).top + rows.at(-1).height,
    height = bottom - top + LEGEND_HEIGHT;
  const base = baseLayout(timeline);
  const ends = rows
    .filter(hasScale)
    .flatMap((row) => [row.signal.low, row.signal.high].map((value) => [yOf(row, value), NUMBERS.format(value)]));
  return {
    ...base,
    width: timeline.width,
    height,
    margin: { l: timeline.gutter, r: MARGIN, t: 0, b: 0, autoexpand: false },
    showlegend: timeline.inner >= LEGEND_WIDTH, // in several lines it would lie on the curves
    uirevision: "signals",
    hovermode: false,
    dragmode: "zoom",
    // the timeline has the view
    xaxis: { range: [view.start, view.end], visible: false, automargin: false, uirevision: performance.now() },
    yaxis: {
      domain: [0, 1 - LEGEND_HEIGHT / height],
      range: [bottom, top],
      fixedrange: true,
      tickvals: ends.map(([y]) => y),
      ticktext: ends.map(([, number]) => number),
      tickfont: { size: 11 },
      gridcolor: colours.grid,
      zeroline: false,
      ticklabelstandoff: 2,
      ticklabeloverflow: "allow",
    },
    legend: {
      orientation: "h",
      x: 0,
      xanchor: "left",
      y: 1,
      yanchor: "top",
      bgcolor: base.paper_bgcolor,
      font: base.font,
    },
    shapes: rows.map((row) => ({
      type: "line",
      visible: row.signal.canMove && row.name in thresholds,
      xref: "x domain",
      x0: 0,
      x1: 1,
      yref: "y",
      y0: yOf(row, thresholds[row.name] ?? 0),
      y1: yOf(row, thresholds[row.name] ?? 0),
      line: { color: colours[row.signal.colour], width: 1.2, dash: "5px,4px" },
    })),
  };
}
