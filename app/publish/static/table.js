// The page of a run: its scores, its charts, and the table of videos, in which a click on a heading sorts.

import { mount } from "../player/charts/chart.js";
import { createButton, createNode } from "../player/dom/dom.js";
import { clockText, countText, KINDS } from "../player/state/data.js";
import { drawTiles, fetchData, linkOf } from "./view.js";

// The columns: heading, hint, value of a row, and its text; numbers are sorted from the largest.
function listColumns(run) {
  const hint = "Why the video has no run here",
    remark = { label: "Remark", hint, read: (row) => row.remark, isText: true, isRemark: true };
  const roots = {
    label: "Chains",
    hint: "First mistakes of chains, as the diagnosis of the run found; empty without a current one",
    read: (row) => row.num_roots,
    write: String,
  };
  const sum = (numbers) => numbers?.reduce((all, one) => all + one, 0) ?? null;
  return [
    { label: "Video", hint: "Opens at its worst moment", read: (row) => row.label, isText: true },
    {
      label: "Length",
      hint: "Minutes and seconds",
      read: (row) => row.duration_s,
      write: (time) => clockText(time, 0),
    },
    { label: "Failures", hint: "Failures of all kinds", read: (row) => sum(row.failures), write: String },
    ...(run.videos.some((row) => row.num_roots) ? [roots] : []),
    ...run.kinds.map((kind, number) => ({
      label: KINDS[kind],
      hint: kind,
      read: (row) => row.failures?.[number] ?? null,
      write: String,
      isSign: true,
    })),
    ...run.columns.map(({ label, hint }, number) => ({
      label,
      hint,
      read: (row) => row.scores[number],
      write: (value) => value.toFixed(3),
    })),
    ...(run.videos.some((row) => row.remark) ? [remark] : []),
  ];
}

function compare(column, sign) {
  return (one, other) => {
    const [a, b] = [column.read(one), column.read(other)];
    if (a === null || b === null) return (a === null) - (b === null); // undefined values are last in both orders
    return sign * (column.isText ? a.localeCompare(b) : a - b);
  };
}

function drawCell(row, column, number) {
  const value = column.read(row),
    words = value === null ? "–" : column.isText ? value : column.write(value);
  if (!number) {
    const link = row.data ? createNode("a", "", words, { href: linkOf(row), title: row.id }) : words;
    return createNode("th", "", link, { scope: "row" });
  }
  return createNode("td", column.isRemark ? "remark" : column.isText ? "" : value ? "number" : "number zero", words);
}

function drawGroups(groups) {
  const drawRow = ({ label, hint: title, score, interval }) =>
    createNode("tr", "", [
      createNode("th", "", label, { scope: "row", title }),
      createNode("td", "", score),
      createNode("td", "dim", interval),
    ]);
  const drawGroup = ({ name, rows, note }) => {
    const noted = note && createNode("tr", "", createNode("td", "dim", note)),
      body = createNode("tbody", "", [...rows.map(drawRow), noted]);
    return createNode("table", "plain", [createNode("caption", "", name), body]);
  };
  return createNode("div", "groups", groups.map(drawGroup));
}

// The closed box of the charts, which are loaded with Plotly when the reader opens it. `pick` is called with the name
// of a point that is clicked, a video or a kind of failure.
function drawCharts(pick) {
  const grid = createNode("div", "charts"),
    box = createNode("details", "", [createNode("summary", "", "Charts"), grid]);
  const open = async () => {
    try {
      for (const figures of (await fetchData("data/charts.json")).content) {
        const element = createNode("div", "", createNode("div", "ss-chart")),
          trigger = (_, { point }) => pick(point),
          settings = { plotly_url: "plotly.min.js" };
        grid.append(element);
        mount({ element, trigger, props: { value: JSON.stringify(figures) }, settings, watch() {} });
      }
    } catch (error) {
      grid.append(createNode("p", "dim", `The charts cannot be shown: ${error.message}.`));
    }
  };
  box.addEventListener("toggle", open, { once: true });
  return box;
}

export function showTable(main, run) {
  const columns = listColumns(run),
    sorted = { column: columns.find(({ label }) => label === "Failures"), sign: -1 }, // as in Batch
    scored = countText(run.num_scored, "video");
  const sortBy = (column, sign) => {
    Object.assign(sorted, { column, sign });
    draw();
  };
  const heads = columns.map((column) => {
    const { label, hint: title, isSign, isText } = column,
      name = isSign ? { ariaLabel: title } : {},
      sort = () => sortBy(column, sorted.column === column ? -sorted.sign : isText ? 1 : -1);
    const button = createButton("", label, sort, { title, ...name });
    return createNode("th", isText ? "" : "number", button, { scope: "col" });
  });
  const body = createNode("tbody"),
    table = createNode("table", "videos", [createNode("thead", "", createNode("tr", "", heads)), body]);
  const count = createNode("span", "dim", "", { role: "status" }),
    words = { type: "search", placeholder: "filter by name", maxLength: 200, ariaLabel: "Filter videos by name" },
    filter = createNode("input", "", "", { ...words, oninput: () => draw() });

  function draw() {
    const isNamed = (row) => row.id.toLowerCase().includes(filter.value.trim().toLowerCase()),
      rows = run.videos.filter(isNamed);
    rows.sort(compare(sorted.column, sorted.sign));
    count.textContent = `${rows.length} of ${countText(run.videos.length, "video")}`;
    const drawRow = (row) => columns.map((column, number) => drawCell(row, column, number));
    body.replaceChildren(...rows.map((row) => createNode("tr", "", drawRow(row))));
    heads.forEach((cell, number) => {
      const isSorted = sorted.column === columns[number];
      cell.ariaSort = !isSorted ? "none" : sorted.sign > 0 ? "ascending" : "descending";
    });
  }
  draw();

  const signs = createNode("span", "dim", run.kinds.map((name) => `${KINDS[name]} ${name}`).join("   ")),
    line = createNode("p", "line", [filter, count, signs]);
  const pick = (point) => {
    const row = run.videos.find(({ id, data }) => data && id === point);
    if (row) location.href = linkOf(row);
    const column = columns.find(({ isSign, hint }) => isSign && hint === point);
    if (!column) return;
    sortBy(column, -1);
    line.scrollIntoView({ block: "nearest" });
  };
  const summary = createNode("summary", "", `All scores of ${scored}`);
  main.append(
    createNode("h2", "", `Scores of ${scored}`),
    drawTiles(run.tiles),
    createNode("details", "", [summary, drawGroups(run.groups)]),
    ...(run.has_charts ? [drawCharts(pick)] : []),
    createNode("h2", "", "Videos"),
    line,
    createNode("div", "wide", table, { tabIndex: 0, role: "region", ariaLabel: "Table of videos" }),
  );
}
