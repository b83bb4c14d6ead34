// Files of a run's timeline: SVG, PNG and CSV, made in the browser. A program prints the PDF with a browser of its own.

import { saveBlob } from "../dom/dom.js";
import { loadPlotly } from "../dom/plotly.js";
import { unpack } from "../state/data.js";
import { drawFigure } from "./timeline_figure.js";
import { csvOf } from "./rows.js";

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
