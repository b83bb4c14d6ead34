// The lane of the signals: their labels with the counts, and where a decision is. Plotly draws the signals: see
// `signals/`.

import { clockText, comparedText, countText, frameAt, thresholdWords, timeOf } from "../state/data.js";
import { conditionText, hasSignal } from "../state/policy.js";
import { fullTitle, hasValues, visibleSignals } from "../state/signals.js";
import { colourOf, hasScale, heightOfMark, markedFrames, marksOf } from "../signals/decision_marks.js";
import { LEGEND_HEIGHT } from "../signals/figure.js";
import { fitText, line } from "../canvas/canvas.js";
import { defineLane, keysAtFrame, nearestOf } from "./lane.js";

const HIT_PX = 9,
  MANY = 4,
  LOW_ROW = 48; // more rows than MANY are lower, and so is one of marks alone
const MARKS = { hits: "in time", alarms: "unexpected", misses: "no decision" };
const ROLES = { speak: "assistant", update: "update" }; // of the turns that a signal decides on
const MAX_LETTERS = 120; // of a text in a tooltip

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
  describe: (timeline, row, x, y) => {
    const { run, label, name } = row,
      mark = decisionAt(timeline, row, x, y);
    if (mark) return decisionText(row, mark, shownOf(timeline, row).thresholds[name]);
    if (!run.times.length) return null;
    const frame = frameAt(run, timeline.time(x)),
      value = run[name][frame];
    return `${clockText(run.times[frame])}  ${label} ${Number.isNaN(value) ? "not known" : value.toFixed(3)}`;
  },
  markAt: (timeline, row, x, y) => {
    const { run, signal } = row,
      mark = decisionAt(timeline, row, x, y),
      turns = mark?.kind === "misses" ? run.references : run.turns;
    return mark && keysAtFrame(run, turns, ROLES[signal.decides], mark.frame);
  },
});

const shownOf = (timeline, row) => (row.isSecond ? row.run.shown : timeline.shown);

// The painted mark at a point, with its frame; null for none.
function decisionAt(timeline, row, x, y) {
  const { counts } = shownOf(timeline, row);
  const marks = marksOf(row.run).flatMap((mark) =>
      markedFrames(timeline, row, mark, counts).map((frame) => ({ ...mark, frame })),
    ),
    near = marks.filter((mark) => Math.abs(heightOfMark(row, mark, mark.frame) - y) < HIT_PX);
  return nearestOf(timeline, near, ({ frame }) => timeOf(row.run, frame), x);
}

// The lines of a mark: the decision with its value, what the model said, and the reference.
function decisionText({ run, signal }, { kind, label, frame }, threshold) {
  const { policy, decides, series } = signal,
    known = comparedText(policy, decides, run[series][frame] ?? NaN, threshold); // NaN of a run without frames
  const cut = (text) => (text.length > MAX_LETTERS ? `${text.slice(0, MAX_LETTERS)}…` : text),
    near = (turns, reach) =>
      turns.filter((turn) => turn.role === ROLES[decides] && Math.abs(turn.frame - frame) <= reach);
  const said = kind === "misses" ? [] : near(run.turns, 0),
    linked = said.map(({ link }) => run.references[link]).filter(Boolean),
    reach = run.has_reference ? { hits: run.tolerance_frames, misses: 0, alarms: -1 }[kind] : -1,
    references = linked.length ? linked : near(run.references, reach),
    silent = run.named.length ? "no text at this frame" : "no text, this is a preview";
  return [
    `${clockText(timeOf(run, frame))}  ${run.has_reference ? label : "decision"}`,
    `${cut(fullTitle(signal))} ${known}`,
    ...said.map(({ text }) => `model: ${cut(text)}`),
    ...(said.length || kind === "misses" ? [] : [`model: ${silent}`]),
    ...references.map(({ time, text }) => `reference ${clockText(time)}: ${cut(text)}`),
  ];
}

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
