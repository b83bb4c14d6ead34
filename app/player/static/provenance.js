// Which model, device, thresholds, settings and text encoder a run comes from, and its export.

import { find, node } from "./dom.js";
import { host, state } from "./state.js";
import { say } from "./status.js";

export function drawProvenance() {
  const runs = state.data && !state.data.isReferenceAlone ? [state.data, state.data.other].filter(Boolean) : [];
  const lines = runs.map((run, number) => {
    const details = node("details");
    details.append(node("summary", "", runs.length > 1 ? `${"AB"[number]}: ${run.origin.summary}` : run.origin.summary));
    const table = node("table");
    for (const [label, text] of run.origin.rows) table.insertRow().append(node("th", "", label), node("td", "", text));
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
    say(`Exporting ${content} of this run.`);
  });
}
