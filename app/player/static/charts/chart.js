// A chart of the batch tab: Plotly draws the figure of the page's theme, which Python has built.

import { createNode } from "../dom/dom.js";
import { loadPlotly } from "../dom/plotly.js";

const CHAR_PX = 6.2;
const LINE_PX = 14;
const PAPER = "#ffffff";

const readTheme = () => (document.body.classList.contains("dark") ? "dark" : "light");

function fit(layout, box) {
  return { ...layout, width: box.clientWidth, height: box.clientHeight };
}

// Adds the effect of a click to the note of a chart with data; files do not have it.
function withHint({ data, layout: { title } }, hint) {
  if (!hint || !data.length) return title;
  return { ...title, subtitle: { ...title.subtitle, text: [title.subtitle.text, hint].filter(Boolean).join(". ") } };
}

// Keeps the size of `box` and the visible ranges of its axes in a copy of the layout of its figure.
function withRanges(figure, box) {
  const layout = fit(figure.layout, box);
  for (const name of ["xaxis", "yaxis"])
    layout[name] = { ...layout[name], range: box.layout[name].range, autorange: false };
  return layout;
}

// Adds the basis of the scores below the note, in lines that fit.
function withBasis({ title, margin, height, width, ...layout }) {
  const lines = layout.meta.basis?.match(new RegExp(`.{1,${Math.floor(width / CHAR_PX)}}(?: |$)`, "g")) ?? [],
    text = [title.subtitle.text, ...lines.map((line) => line.replaceAll("<", "&lt;"))].filter(Boolean).join("<br>"),
    more = LINE_PX * lines.length;
  return {
    ...layout,
    width,
    height: height + more,
    margin: { ...margin, t: margin.t + more },
    title: { ...title, subtitle: { ...title.subtitle, text } },
  };
}

// A file is for a page of paper or a document: always the light theme, with a background.
function download(Plotly, box, figures, format) {
  const layout = { ...withBasis(withRanges(figures.light, box)), paper_bgcolor: PAPER };
  const filename = box.layout.title.text.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return Plotly.downloadImage(
    { data: figures.light.data, layout },
    { format, filename, width: layout.width, height: layout.height, scale: format === "png" ? 2 : 1 },
  );
}

function makeConfig(Plotly, box, read) {
  const button = (format, icon) => ({
    name: format,
    title: `Download as ${format.toUpperCase()}`,
    icon,
    click: () => download(Plotly, box, read(), format),
  });
  return {
    displaylogo: false,
    modeBarButtons: [
      ["zoom2d", "pan2d", "resetScale2d", button("png", Plotly.Icons.camera), button("svg", Plotly.Icons.disk)],
    ],
  };
}

// The drawing is one picture for screen readers; the buttons of Plotly lie outside of it.
function label(box, figure) {
  const [drawing, ...others] = box.querySelectorAll(".main-svg"),
    { title, meta } = figure.layout;
  Object.assign(drawing, { role: "img", ariaLabel: `${title.text}. ${meta.summary}` });
  for (const layer of others) layer.ariaHidden = true;
}

class ChartView {
  constructor({ element, trigger, props, settings }) {
    Object.assign(this, { props, settings, trigger, box: element.querySelector(".ss-chart"), drawn: null });
    this.basis = createNode("p", "chart-basis dim");
    this.box.after(this.basis);
    this.sizes = new ResizeObserver(() => this.draw());
    this.themes = new MutationObserver(() => this.draw());
    this.sizes.observe(this.box);
    this.themes.observe(document.body, { attributeFilter: ["class"] });
  }

  // Draws unless nothing has changed; waits while the chart is in a hidden tab.
  async draw() {
    const { box, props, settings } = this,
      width = box.clientWidth,
      key = JSON.stringify([width, readTheme(), props.value]);
    if (!box.isConnected) return this.end();
    if (!width || key === this.drawn) return;
    this.drawn = key;
    if (!props.value) return this.clear();
    this.Plotly ??= await loadPlotly(settings.plotly_url);
    const figures = (this.figures = JSON.parse(props.value)),
      figure = figures[readTheme()];
    const layout = { ...fit(figure.layout, box), title: withHint(figure, settings.hint), uirevision: figures.revision };
    this.config ??= makeConfig(this.Plotly, box, () => this.figures); // another one would reset the zoom
    await this.Plotly.react(box, figure.data, layout, this.config);
    if (!this.isBound) this.bind();
    label(box, figure);
    this.basis.textContent = figure.layout.meta.basis ?? "";
  }

  clear() {
    this.isBound = false;
    this.basis.textContent = "";
    this.Plotly?.purge(this.box);
  }

  bind() {
    this.isBound = true;
    this.box.on("plotly_click", ({ points: [point] }) => {
      if (point?.customdata !== undefined) this.trigger("pick", { point: point.customdata });
    });
  }

  end() {
    this.sizes.disconnect();
    this.themes.disconnect();
    this.clear();
  }
}

export function mount(host) {
  const view = new ChartView(host);
  host.watch("value", () => view.draw());
  view.draw();
}
