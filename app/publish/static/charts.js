// The charts of the run. They and Plotly are loaded when the reader opens them.

import { mount } from "../player/charts/chart.js";
import { createNode } from "../player/dom/dom.js";

// Returns the closed box of the charts. `pick` is called with the name of a point that is clicked, a video or a kind of
// failure.
export function drawCharts(pick) {
  const box = createNode("details"),
    grid = createNode("div", "charts");
  box.append(createNode("summary", "", "Charts"), grid);
  box.addEventListener(
    "toggle",
    async () => {
      try {
        for (const figures of await (await fetch("data/charts.json", { cache: "no-cache" })).json())
          drawChart(grid, figures, pick);
      } catch (error) {
        grid.append(createNode("p", "dim", `The charts cannot be loaded: ${error.message}.`));
      }
    },
    { once: true },
  );
  return box;
}

function drawChart(grid, figures, pick) {
  const element = createNode("div"),
    props = { value: JSON.stringify(figures) };
  element.append(createNode("div", "ss-chart"));
  grid.append(element);
  mount({
    element,
    trigger: (_, { point }) => pick(point),
    props,
    settings: { plotly_url: "plotly.min.js" },
    watch() {},
  });
}
