// The provenance of a run (model, device, thresholds, settings, text encoder) and its exports: files and figures.

import { createNode, createTable, setStatus } from "../dom/dom.js";
import { makeFile, saveFile } from "../export/files.js";
import { clockText } from "../state/data.js";

export function drawProvenance(player) {
  const runs = player.data && !player.data.isReferenceAlone ? [player.data, player.data.other].filter(Boolean) : [];
  const lines = runs.map(({ letter, origin }) => {
    const rows = origin.rows.map(([label, text]) => [createNode("th", "", label), text]),
      summary = createNode("summary", "", letter ? `${letter}: ${origin.summary}` : origin.summary);
    return createNode("details", "", [summary, createTable("", rows)]);
  });
  player.find("origins").replaceChildren(...lines);
  for (const button of player.find("origin").querySelectorAll("button")) button.disabled = !player.data?.times.length;
  showFormats(player);
}

// Charts and PDF need the server; a timeline is no figure of Plotly, so it has no JSON.
function showFormats(player) {
  const [chart, figures] = [player.find("figureChart"), player.find("figures")];
  chart.hidden = figures.querySelector("[data-figure=pdf]").hidden = !player.settings.can_run;
  figures.querySelector("[data-figure=json]").hidden = chart.value === "timeline";
}

function announce(player, words) {
  player.exporting = words;
  setStatus(player, words);
}

// Says that a file was saved, if the status line still says that it is written; without a file it is cleared.
export function announceSaved(player, name) {
  if (player.exporting && player.find("said").textContent === player.exporting)
    setStatus(player, name ? `Saved ${name}.` : "");
  player.exporting = "";
}

export function mountProvenance(player) {
  player.listen("figureChart", "change", () => showFormats(player));
  player.listen("origin", "click", (event) => {
    const { export: content, figure: format } = event.target.closest("button")?.dataset ?? {};
    if (!player.data) return;
    if (content) {
      player.trigger("export_run", { content });
      announce(player, `Exporting ${content} of this run.`);
    }
    if (format) exportFigure(player, format);
  });
}

// The timeline is drawn here; its PDF is printed by the server, which also draws the charts.
async function exportFigure(player, format) {
  const { start, end } = player.timeline.view,
    chart = player.find("figureChart"),
    isTimeline = chart.value === "timeline",
    look = { width: player.find("figureWidth").value, theme: player.find("figureTheme").value, start, end };
  const ofVideo = `"${chart.selectedOptions[0].textContent}" of this video`,
    content = isTimeline ? `${clockText(start)} to ${clockText(end)}` : ofVideo;
  announce(player, `Drawing ${format.toUpperCase()} of ${content}.`);
  if (!isTimeline) return requestFigure(player, { ...look, chart: chart.value, format });
  const run = player.data;
  try {
    const { blob } = await makeFile(player.settings.plotly_url, run, look, format);
    if (format === "pdf") requestFigure(player, { ...look, chart: "timeline", format, svg: await blob.text() });
    else setStatus(player, `Saved ${saveFile(blob, run, `figure.${format}`)}.`);
  } catch (error) {
    setStatus(player, `The figure cannot be drawn: ${error.message}.`);
  }
}

function requestFigure(player, { chart, format, width, theme, svg = "" }) {
  const against = { corrected: player.data.is_corrected, reviewer: player.reviewer, is_blind: player.review.isBlind };
  player.trigger("export_figure", { chart, format, width, theme, svg, ...against });
}
