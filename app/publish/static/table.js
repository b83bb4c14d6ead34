// The table of videos: one row each, with failures by kind and scores. A click on a heading sorts.

import { drawCharts } from "./charts.js";
import { createNode, showTurns } from "../player/dom/dom.js";
import { clockText, countText, KINDS } from "../player/state/data.js";
import { drawGroups, drawTiles } from "./scores.js";
import { linkOf } from "./view.js";

// The columns: heading, hint, value of a row, and its text; numbers are sorted from the largest.
function listColumns(run) {
  const sum = (numbers) => numbers?.reduce((all, one) => all + one, 0) ?? null;
  return [
    { label: "Video", hint: "Opens at its worst moment", read: (row) => row.label, isText: true },
    {
      label: "Length",
      hint: "Minutes and seconds",
      read: (row) => row.duration_s,
      write: (value) => clockText(value, 0),
    },
    { label: "Failures", hint: "Failures of all kinds", read: (row) => sum(row.failures), write: String },
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
    ...(run.videos.some((row) => row.remark)
      ? [
          {
            label: "Remark",
            hint: "Why the video has no run here",
            read: (row) => row.remark,
            isText: true,
            isRemark: true,
          },
        ]
      : []),
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
  const cell = createNode(number ? "td" : "th"),
    value = column.read(row);
  if (!number) cell.scope = "row";
  cell.className = column.isRemark ? "remark" : column.isText ? "" : value ? "number" : "number zero";
  if (!number && row.data) {
    const link = createNode("a", "", value);
    link.href = linkOf(row);
    link.title = showTurns(row.id);
    cell.append(link);
  } else cell.textContent = value === null ? "–" : column.isText ? showTurns(value) : column.write(value);
  return cell;
}

export function showTable(main, run) {
  const columns = listColumns(run),
    sorted = { column: null, sign: 1 };
  const table = createNode("table", "videos"),
    head = table.createTHead().insertRow(),
    body = table.createTBody();
  const every = createNode("button", "", "all kinds"),
    filter = createNode("input"),
    count = createNode("span", "dim"),
    box = createNode("div", "wide");
  Object.assign(filter, { type: "search", placeholder: "filter by name", maxLength: 200 });
  filter.setAttribute("aria-label", "Filter videos by name");
  count.setAttribute("role", "status");
  every.type = "button";
  let kind = null; // the kind of failure that the rows have; null for all rows

  const draw = () => {
    const words = filter.value.trim().toLowerCase();
    const hasKind = (row) => kind === null || row.failures?.[run.kinds.indexOf(kind)] > 0;
    const rows = run.videos.filter((row) => row.id.toLowerCase().includes(words) && hasKind(row));
    if (sorted.column) rows.sort(compare(sorted.column, sorted.sign));
    count.textContent =
      `${rows.length} of ${countText(run.videos.length, "video")}` +
      `${kind === null ? "" : ` with failures of the kind ${kind}`}`;
    every.hidden = kind === null;
    body.replaceChildren(
      ...rows.map((row) => {
        const line = createNode("tr");
        line.append(...columns.map((column, number) => drawCell(row, column, number)));
        return line;
      }),
    );
    [...head.cells].forEach((cell, number) => {
      cell.setAttribute(
        "aria-sort",
        sorted.column !== columns[number] ? "none" : sorted.sign > 0 ? "ascending" : "descending",
      );
    });
  };
  head.append(
    ...columns.map((column) => {
      const cell = createNode("th"),
        button = createNode("button", "", column.label);
      cell.scope = "col";
      if (!column.isText) cell.className = "number";
      button.type = "button";
      button.title = column.hint;
      if (column.isSign) button.setAttribute("aria-label", column.hint);
      button.addEventListener("click", () => {
        sorted.sign = sorted.column === column ? -sorted.sign : column.isText ? 1 : -1;
        sorted.column = column;
        draw();
      });
      cell.append(button);
      return cell;
    }),
  );
  filter.addEventListener("input", draw);
  every.addEventListener("click", () => {
    kind = null;
    draw();
  });
  draw();

  const line = createNode("p", "line"),
    all = createNode("details");
  line.append(
    filter,
    count,
    every,
    createNode("span", "dim", run.kinds.map((kind) => `${KINDS[kind]} ${kind}`).join("   ")),
  );
  all.append(
    createNode("summary", "", `All scores of ${countText(run.num_scored, "video")}, with 95 % intervals`),
    drawGroups(run.groups),
  );
  box.append(table);
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Table of videos");
  main.append(createNode("h2", "", `Scores of ${countText(run.num_scored, "video")}`), drawTiles(run.tiles), all);
  if (run.has_charts)
    main.append(
      drawCharts((point) => {
        const row = run.videos.find(({ id, data }) => data && id === point);
        if (row) location.href = linkOf(row);
        if (!run.kinds.includes(point)) return;
        kind = point;
        draw();
        line.scrollIntoView({ block: "nearest" });
      }),
    );
  main.append(createNode("h2", "", "Videos"), line, box);
}
