// The data of a figure as CSV: a row for each turn, state, frame of a signal and decision of a range.

import { LANES } from "../lanes/table.js";
import { settingsOf } from "./timeline_figure.js";

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
