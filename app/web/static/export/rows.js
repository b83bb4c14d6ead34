// The data of a figure as CSV: a row for each turn, state, frame of a signal and decision of a range.

import { stateWord } from "../lanes/steps.js";
import { bandsOf, piecesOf, timeOf } from "../state/data.js";
import { fullTitle, visibleSignals } from "../state/signals.js";
import { settingsOf } from "./timeline_figure.js";

const COLUMNS = ["video_id", "run", "lane", "series", "time_s", "end_s", "value", "text"];
const MARKS = { hits: "in time", alarms: "unexpected", misses: "no decision" };
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
    return [...rowsOf(shown, counts, number === 0)].filter(isIn).map((row) => ({ ...source, ...cut(row) }));
  });
  return [COLUMNS, ...lines.map((row) => COLUMNS.map((name) => row[name]))]
    .map((cells) => `${cells.map(cellOf).join(",")}\n`)
    .join("");
}

function* rowsOf(run, counts, isFirst) {
  if (isFirst) {
    yield* turnRows("user", run.userTurns, () => "user");
    yield* turnRows("reference", run.referenceDialogue, (turn) => {
      if (turn.role === "user") return "user not asked";
      return turn.is_missed ? "missed" : "reference";
    });
  }
  yield* turnRows("assistant", run.responses, (turn) => turn.failure ?? turn.verdict ?? "assistant");
  for (const name of bandsOf(run)) if (isFirst || name === "model") yield* bandRows(run, name);
  for (const [number, spans] of run.differences.entries())
    for (const [first, last] of spans) {
      const span = { time_s: timeOf(run, first), end_s: last < run.times.length ? timeOf(run, last) : run.reached };
      yield { lane: run.steps[number].id, series: "differs", ...span };
    }
  for (const signal of visibleSignals(run)) yield* signalRows(run, signal, counts[signal.name]);
  yield* stateRows(run);
  for (const [frame, time] of run.times.entries()) {
    if (run.cache[frame] > 0) yield { lane: "cache", series: "tokens", time_s: time, value: run.cache[frame] };
    if (run.latency[frame] > 0) yield { lane: "latency", series: "ms", time_s: time, value: run.latency[frame] };
  }
  for (const frame of run.refreshed) yield { lane: "cache", series: "refresh", time_s: timeOf(run, frame) };
}

function* turnRows(lane, turns, seriesOf) {
  for (const turn of turns) yield { lane, series: seriesOf(turn), time_s: turn.time, text: turn.text };
}

function* bandRows(run, name) {
  const end = name === "model" ? run.reached : run.duration_s;
  for (const [number, band] of run.bands[name].entries()) {
    const lane = run.steps[number].id;
    for (const { start, end: end_s, state } of piecesOf(run, band, end))
      yield { lane, series: name, time_s: start, end_s, text: stateWord(run, state) };
  }
}

function* signalRows(run, signal, counts) {
  const lane = signal.key ?? signal.name,
    values = run[signal.series];
  for (const [frame, time] of run.times.entries())
    yield { lane, series: fullTitle(signal), time_s: time, value: values[frame] };
  for (const [kind, series] of Object.entries(MARKS))
    for (const frame of counts?.[kind] ?? [])
      yield { lane, series, time_s: timeOf(run, frame), value: kind === "misses" ? NaN : values[frame] };
  if (signal.hasThreshold)
    yield { lane, series: "threshold", time_s: 0, end_s: run.duration_s, value: run.thresholds[signal.name] };
}

function* stateRows(run) {
  for (const { start, end: end_s, state } of piecesOf(run, run.assistant_states, run.reached))
    if (state !== null) yield { lane: "state", series: "state", time_s: start, end_s, text: state };
}

function cellOf(value) {
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  const text = (value ?? "").replace(/\p{Cs}/gu, "\ufffd");
  const cell = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
