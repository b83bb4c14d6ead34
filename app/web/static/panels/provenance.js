// The provenance of a run (model, device, thresholds, settings, text encoder) and its exports: files and figures.

import { createNode, find } from "../dom/dom.js";
import { makeFile, saveFile } from "../export/files.js";
import { host, listeners, review, reviewer, state, ui } from "../state/state.js";
import { clockText } from "../state/data.js";
import { setStatus } from "../dom/status.js";

export function drawProvenance() {
  const runs = state.data && !state.data.isReferenceAlone ? [state.data, state.data.other].filter(Boolean) : [];
  const lines = runs.map((run) => {
    const details = createNode("details");
    details.append(createNode("summary", "", run.letter ? `${run.letter}: ${run.origin.summary}` : run.origin.summary));
    const table = createNode("table");
    for (const [label, text] of run.origin.rows)
      table.insertRow().append(createNode("th", "", label), createNode("td", "", text));
    details.append(table);
    return details;
  });
  find("origins").replaceChildren(...lines);
  for (const button of find("origin").querySelectorAll("button")) button.disabled = !state.data?.times.length;
  for (const part of find("figures").querySelectorAll("[data-figure=pdf], [data-figure=json], .ss-figureChart"))
    part.hidden = !host.settings.can_run; // they need the server
}

let waiting = ""; // the status line while a file is written

function announce(words) {
  waiting = words;
  setStatus(words);
}

export function mountProvenance() {
  document.addEventListener(
    "stepscope:saved",
    ({ detail }) => {
      if (waiting && find("said").textContent === waiting) setStatus(detail ? `Saved ${detail}.` : "");
      waiting = "";
    },
    { signal: listeners.signal },
  );
  find("origin").addEventListener("click", (event) => {
    const { export: content, figure: format } = event.target.closest("button")?.dataset ?? {};
    if (!state.data) return;
    if (content) {
      host.trigger("export_run", { content });
      announce(`Exporting ${content} of this run.`);
    }
    if (format) exportFigure(format);
  });
}

// The timeline is drawn here; its PDF is printed by the server, which also draws the charts.
async function exportFigure(format) {
  const { start, end } = ui.timeline.view,
    chart = find("figureChart"),
    isTimeline = chart.value === "timeline",
    look = { width: find("figureWidth").value, theme: find("figureTheme").value, start, end };
  const content = isTimeline
    ? `${clockText(start)} to ${clockText(end)}`
    : `"${chart.selectedOptions[0].textContent}" of this video`;
  announce(`Drawing ${format.toUpperCase()} of ${content}.`);
  if (!isTimeline) return requestFigure({ ...look, chart: chart.value, format });
  if (format === "json") return setStatus("A timeline is no figure of Plotly: choose SVG, PNG, PDF or CSV.");
  const run = state.data;
  try {
    const { blob } = await makeFile(host.settings.plotly_url, run, look, format);
    if (format === "pdf") requestFigure({ ...look, chart: "timeline", format, svg: await blob.text() });
    else setStatus(`Saved ${saveFile(blob, run, `figure.${format}`)}.`);
  } catch (error) {
    setStatus(`The figure cannot be drawn: ${error.message}.`);
  }
}

function requestFigure({ chart, format, width, theme, svg = "" }) {
  const against = { corrected: state.data.is_corrected, reviewer: reviewer(), is_blind: review.isBlind };
  host.trigger("export_figure", { chart, format, width, theme, svg, ...against });
}
