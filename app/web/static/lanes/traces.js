// The lane of the signals: their labels with the counts, and where a decision is. Plotly draws the signals: see
// `signals/`.

import { clockText, countText, frameAt, thresholdWords, timeOf } from "../state/data.js";
import { conditionText, hasSignal } from "../state/policy.js";
import { fullTitle, hasValues, visibleSignals } from "../state/signals.js";
import { colourOf, markedFrames, marksOf } from "../signals/decision_marks.js";
import { LEGEND_HEIGHT } from "../signals/figure.js";
import { ROLES } from "../signals/hover_text.js";
import { hasScale, yOf } from "../signals/scale.js";
import { fitText, line } from "../timeline/canvas.js";
import { defineLane, keysAtFrame, nearestOf } from "./lane.js";

const HIT_PX = 9,
  MANY = 4,
  LOW_ROW = 48; // more rows than MANY are lower, and so is one of marks alone
const MARKS = { hits: "in time", alarms: "unexpected", misses: "no decision" };

export const traces = defineLane({
  kind: "trace",
  height: 56,
  above: LEGEND_HEIGHT,
  gap: 4,
  below: 4,
  legend: [
    [
      "● ▲ ✕",
      "on the signals, decisions only, whatever their text: one in time (within 1 s of a reference turn), " +
        "an unexpected one, and a reference turn without a decision",
    ],
  ],
  appliesTo: (run) => !run.isReferenceAlone,
  rows: (run) =>
    visibleSignals(run).map((signal, _, { length }) => ({
      label: signal.title,
      name: signal.name,
      signal,
      ...((length > MANY || !hasScale({ signal })) && { height: LOW_ROW }),
    })),
  *data(run, counts) {
    for (const signal of visibleSignals(run)) yield* signalData(run, signal, counts[signal.name]);
  },
  paintLabel: ({ pen, colours, gutter, isFigure }, row, { thresholds, counts }) => {
    const { run, name, signal, top, height } = row,
      lines = [top + 12, top + height / 2 + 1, top + height - 11];
    pen.fillStyle = colours[signal.colour];
    const [title, condition] = labelParts(row, thresholds),
      room = gutter - 28 - (condition ? pen.measureText(` ${condition}`).width : 0);
    pen.fillText(`${fitText(pen, title, room)} ${condition}`.trim(), 4, lines[0]);
    pen.fillStyle = colours.ink;
    if (!counts[name]) {
      pen.fillText(signal.decides ? `decides to ${signal.decides}` : "", 4, lines[1]);
      return void pen.fillText(signal.canMove && !isFigure ? "no threshold: drag one" : "", 4, lines[2]);
    }
    const { hits, alarms, misses } = counts[name];
    if (!run.has_reference) {
      if (signal.isUntrained) pen.fillText("untrained", 4, lines[2]);
      return void pen.fillText(countText(hits.length, "decision"), 4, lines[1]);
    }
    pen.fillText(signal.isUntrained ? "untrained" : "decisions only", 4, lines[1]);
    // the legend names the signs
    pen.fillText(`● ${hits.length}  ▲ ${alarms.length}  ✕ ${misses.length}`, 4, lines[2]);
  },
  paint: ({ pen, colours, gutter, inner }, { run, name, signal, top, height }) => {
    if (!signal.missing || !run.times.length || hasValues(run, name)) return;
    pen.fillStyle = colours.ink;
    pen.fillText(fitText(pen, `no values: ${signal.missing}`, inner - 16), gutter + 8, top + height / 4);
  },
  signs: (timeline, row, settings) => [
    ...marksOf(row.run)
      .filter((mark) => markedFrames(timeline, row, mark, settings.counts).length)
      .map((mark) => ({ word: mark.label, colour: colourOf(timeline, row, mark), paint: mark.shape })),
    ...(row.signal.canMove && row.name in settings.thresholds ? [{ word: "threshold", paint: paintDashes }] : []),
  ],
  describeLabel: (row, { thresholds }) => (row.run.named.length ? labelParts(row, thresholds).join(" ").trim() : null),
  describe: (timeline, { run, label, name }, x) => {
    if (!run.times.length) return null;
    const frame = frameAt(run, timeline.time(x)),
      value = run[name][frame];
    return `${clockText(run.times[frame])}  ${label} ${Number.isNaN(value) ? "not known" : value.toFixed(3)}`;
  },
  markAt: (timeline, row, x, y) => {
    const { run, name, signal } = row,
      counts = timeline.shown.counts[name],
      timeOfFrame = (frame) => timeOf(run, frame);
    if (!counts) return null;
    const decided = nearestOf(timeline, [...counts.hits, ...counts.alarms], timeOfFrame, x);
    if (decided !== null && Math.abs(yOf(row, run[signal.series][decided]) - y) < HIT_PX)
      return keysAtFrame(run, run.turns, ROLES[signal.decides], decided);
    const missed = nearestOf(timeline, counts.misses, timeOfFrame, x);
    return missed !== null && Math.abs(yOf(row, signal.low) - y) < HIT_PX
      ? keysAtFrame(run, run.references, ROLES[signal.decides], missed)
      : null;
  },
});

function paintDashes(pen, x, y) {
  pen.setLineDash([4.5, 3]);
  line(pen, x - 6, y, x + 6, y);
  pen.setLineDash([]);
}

function labelParts({ run, signal }, thresholds) {
  const { title, policy, decides, hasThreshold, name } = signal;
  if (decides && !hasSignal(policy, decides)) return [`no ${name}s: ${run.policy.name}`, ""];
  const isShown = hasThreshold && name in thresholds;
  return [title, isShown ? conditionText(policy, thresholdWords(policy, thresholds[name])) : ""];
}

function* signalData(run, signal, counts) {
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
