// A range of a run as a figure for a paper: the lanes of the timeline on an SVG pen, the signals by Plotly, a legend.

import { LEGEND_HEIGHT, signalFigure } from "../signals/figure.js";
import { paintMarks } from "../signals/decision_marks.js";
import { clockText, EventCounts, timeOf } from "../state/data.js";
import { countedNames } from "../state/signals.js";
import { coloursOf, Timeline } from "../timeline/timeline.js";
import { escapeXml, SvgPen } from "./svg_pen.js";

const FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"; // common ones with nearly equal widths
// Font size in pixels from a width in pixels. Lanes are drawn at 12 px and then scaled; their smallest text, of
// 10.5 px, has 7 pt or more on paper.
const FONT_SIZES = [
  [900, 12],
  [600, 11],
  [0, 10.7],
];
const RIGHT_PX = 6; // half of the last time beyond the lanes
const PIXELS = { px: 1, mm: 96 / 25.4, cm: 96 / 2.54, in: 96, pt: 96 / 72 }; // 96 in an inch, as in CSS
const LOOKS = { light: { ink: "#27272a", background: "#ffffff" }, dark: { ink: "#f4f4f5", background: "#18181b" } };

// Returns the `svg`, and its `width` and `height` in pixels. The look has the `width` with its unit, such as "180mm",
// the `theme`, and the range `start` to `end` in seconds.
export async function drawFigure(plotly, run, { width, theme, start, end }) {
  const [, number, unit] = /^([\d.]+)([a-z]+)$/.exec(width),
    pixels = Math.round(Number(number) * PIXELS[unit]);
  const other = run.other && { ...run.other, shown: settingsOf(run.other, start, end) };
  // the lanes of a reviewer are not part of a figure
  const timeline = arrange({ ...run, other, isReviewing: false, hasLayer: false }, { pixels, theme, start, end }),
    { pen, rows, font } = timeline,
    settings = settingsOf(run, start, end);
  timeline.paint(settings);
  for (const isSecond of [false, true]) {
    const traces = rows.filter((row) => row.kind === "trace" && row.isSecond === isSecond);
    if (traces.length) await drawSignals(plotly, timeline, traces, isSecond ? other.shown : settings);
  }
  const height = paintLegend(timeline, settings),
    wide = timeline.width + RIGHT_PX,
    scale = pixels / wide,
    tall = `${Number(((number * height) / wide).toFixed(3))}${unit}`;
  const svg =
    `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ` +
    `width="${width}" height="${tall}" viewBox="0 0 ${wide} ${height}" role="img" ` +
    `font-family="${escapeXml(font.replace(/^\S+ /, ""))}"><title>${escapeXml(titleOf(run, start, end))}</title>` +
    `<rect width="100%" height="100%" fill="${LOOKS[theme].background}"/>${pen}</svg>`;
  return { svg, width: pixels, height: height * scale };
}

// The thresholds of the run, not those of a preview, with the decisions in a range.
export function settingsOf(run, start, end) {
  const { thresholds } = run,
    isIn = (frame) => timeOf(run, frame) >= start && timeOf(run, frame) <= end;
  const counts = countedNames(run).map((name) => {
    const { hits, alarms, misses } = new EventCounts(run, name, thresholds[name], false).extend();
    return [name, { hits: hits.filter(isIn), alarms: alarms.filter(isIn), misses: misses.filter(isIn) }];
  });
  return { thresholds, counts: Object.fromEntries(counts), region: null };
}

function arrange(run, { pixels, theme, start, end }) {
  const timeline = new Timeline(null),
    size = FONT_SIZES.find(([least]) => pixels >= least)[1],
    width = Math.round((pixels * 12) / size) - RIGHT_PX;
  Object.assign(timeline, {
    width,
    gutter: Math.round(Math.min(150, Math.max(118, 0.2 * width))),
    pen: new SvgPen(),
    font: `12px ${FONT}`,
    colours: { ...coloursOfTheme(theme), ink: LOOKS[theme].ink },
    view: { start, end },
  });
  timeline.pen.font = timeline.font;
  timeline.height = timeline.arrange(run);
  return timeline;
}

// The colours of a theme, whichever the page has: an element of the class "dark" has the dark ones.
function coloursOfTheme(theme) {
  if (theme === "light") return coloursOf(getComputedStyle(document.documentElement));
  const probe = document.body.appendChild(document.createElement("div"));
  probe.className = "dark";
  const colours = coloursOf(getComputedStyle(probe));
  probe.remove();
  return colours;
}

async function drawSignals(plotly, timeline, rows, settings) {
  const { data, layout } = signalFigure(timeline, rows, settings),
    { width, height } = layout;
  const figure = { data, layout: { ...layout, showlegend: false } };
  const svg = await plotly.toImage(figure, { format: "svg", width, height, imageDataOnly: true });
  // On a page with <base>, Plotly writes the page's address into references.
  const local = svg.replace(/url\((&quot;|["'])?[^)#]*#/g, "url($1#");
  timeline.pen.embed(local.replace(/^<svg /, `<svg x="0" y="${rows[0].top - LEGEND_HEIGHT}" `));
  paintMarks(timeline.pen, timeline, rows, settings.counts);
}

function titleOf(run, start, end) {
  const names = [run, run.other].filter(Boolean).map(({ run_name: name, run: digest }) => name || digest);
  return `${run.video_id}, ${names.join(" and ")}, ${clockText(start)} to ${clockText(end)}`;
}

const LINE_PX = 16,
  LEFT = 4,
  SIGN_PX = 16, // from a sign to its word
  GAP_PX = 11; // between two entries

// Paints the legend below the lanes, each word once; returns the height of the figure.
function paintLegend(timeline, settings) {
  const { pen, colours, rows, width } = timeline,
    entries = new Map();
  for (const row of rows)
    for (const sign of row.lane.signs(timeline, row, row.isSecond ? row.run.shown : settings))
      if (sign.word && !entries.has(sign.word)) entries.set(sign.word, sign);
  let [x, y] = [LEFT, timeline.height + 2 + LINE_PX / 2];
  for (const { word, sign, colour = colours.ink, paint } of entries.values()) {
    const room = SIGN_PX + pen.measureText(word).width;
    if (x > LEFT && x + room > width) [x, y] = [LEFT, y + LINE_PX];
    Object.assign(pen, { fillStyle: colour, strokeStyle: colour, lineWidth: 1.4 });
    pen.textAlign = "center";
    if (paint) paint(pen, x + 6, y);
    else pen.fillText(sign, x + 6, y);
    Object.assign(pen, { fillStyle: colours.ink, textAlign: "left" });
    pen.fillText(word, x + SIGN_PX, y);
    x += room + GAP_PX;
  }
  return Math.ceil(y + (entries.size ? LINE_PX / 2 + 4 : 0));
}
