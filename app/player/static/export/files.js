// Files of a run's timeline: SVG, PNG and CSV, made in the browser. A program prints the PDF with a browser of its own.

import { saveBlob } from "../dom/dom.js";
import { loadPlotly } from "../dom/plotly.js";
import { unpack } from "../state/data.js";
import { LANES } from "../lanes/table.js";
import { drawFigure, settingsOf } from "./timeline_figure.js";

const DOTS_PER_PIXEL = 300 / 96; // of a PNG for print

// Returns the `blob` of a figure, and its `width` and `height` in pixels; those of a CSV are 0. The look is that of
// `drawFigure`.
export async function makeFile(plotlyUrl, run, look, format) {
  if (format === "csv") {
    const rows = csvOf(run, look.start, look.end);
    return { blob: new Blob([rows], { type: "text/csv" }), width: 0, height: 0 };
  }
  const figure = await drawFigure(await loadPlotly(plotlyUrl), run, look),
    { svg, width, height } = figure;
  const blob = format === "png" ? await rasterize(figure) : new Blob([svg], { type: "image/svg+xml" });
  return { blob, width, height };
}

async function rasterize({ svg, width, height }) {
  const image = new Image(),
    canvas = document.createElement("canvas");
  canvas.width = Math.round(width * DOTS_PER_PIXEL);
  canvas.height = Math.round(height * DOTS_PER_PIXEL);
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve));
  if (!blob) throw new Error("it is too large for a PNG; choose SVG or PDF");
  return blob;
}

// For `stepscope figure`: the file of a packed run in base64, with its size.
export async function encodeFile(plotlyUrl, packed, look, format) {
  const { blob, width, height } = await makeFile(plotlyUrl, unpack(packed), look, format),
    reader = new FileReader();
  await new Promise((resolve) => {
    reader.onload = resolve;
    reader.readAsDataURL(blob);
  });
  return { content: reader.result.split(",")[1], width, height };
}

// Saves a file in the browser, named after the video and the run; returns its name.
export function saveFile(blob, run, ending) {
  const parts = [run.name, run.run_name || run.run],
    stem = parts.join("-").replace(/[^\p{L}\p{N}_.-]+/gu, "_");
  const name = `${stem.slice(0, 100)}-${ending}`;
  saveBlob(blob, name);
  return name;
}

const COLUMNS = ["video_id", "run", "lane", "series", "time_s", "end_s", "value", "text"];
const FORMULA = /^['=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/; // a spreadsheet would compute such a text

// Returns the rows from `start` to `end`, borders included; spans are cut there. Reference and user turns are those
// of the upper run.
export function csvOf(run, start, end) {
  const isIn = ({ time_s: from, end_s: to }) =>
    to === undefined ? from >= start && from <= end : from < end && to > start;
  const clamp = (time) => Math.min(end, Math.max(start, time)),
    cut = (row) => (row.end_s === undefined ? row : { ...row, time_s: clamp(row.time_s), end_s: clamp(row.end_s) });
  const lines = [run, run.other].filter(Boolean).flatMap((shown, number) => {
    const { counts } = settingsOf(shown, start, end);
    const source = { video_id: shown.video_id, run: shown.run_name || shown.run };
    const rows = LANES.flatMap((lane) => [...lane.data(shown, counts, number > 0)]);
    return rows.filter(isIn).map((row) => ({ ...source, ...cut(row) }));
  });
  return [COLUMNS, ...lines.map((row) => COLUMNS.map((name) => row[name]))]
    .map((cells) => `${cells.map(cellOf).join(",")}\n`)
    .join("");
}

function cellOf(value) {
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  const text = (value ?? "").replace(/\p{Cs}/gu, "\ufffd");
  const cell = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
