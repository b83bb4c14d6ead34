// The provenance of a run (model, device, thresholds, settings, text encoder) and its export.

import { createNode, find } from "../dom/dom.js";
import { host, state } from "../state/state.js";
import { setStatus } from "../dom/status.js";

export function drawProvenance() {
  const runs = state.data && !state.data.isReferenceAlone ? [state.data, state.data.other].filter(Boolean) : [];
  const lines = runs.map((run, number) => {
    const details = createNode("details");
    details.append(createNode("summary", "", runs.length > 1 ? `${"AB"[number]}: ${run.origin.summary}` : run.origin.summary));
    const table = createNode("table");
    for (const [label, text] of run.origin.rows) table.insertRow().append(createNode("th", "", label), createNode("td", "", text));
    details.append(table);
    return details;
  });
  find("origins").replaceChildren(...lines);
  for (const button of find("origin").querySelectorAll("[data-export]")) button.disabled = !state.data?.times.length;
}

export function mountProvenance() {
  find("origin").addEventListener("click", (event) => {
    const content = event.target.closest("[data-export]")?.dataset.export;
    if (!content || !state.data) return;
    host.trigger("export_run", { content });
    setStatus(`Exporting ${content} of this run.`);
  });
}
