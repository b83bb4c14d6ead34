// The lanes of the steps: a row per step with the reference's state above the model's, hatched where they differ.
// Without *details* they are folded to one strip, with rows for the steps at the playhead.

import { bandsOf, countUpTo, frameAt, gridFrame, piecesOf, stateAt, timeOf } from "../state/data.js";
import { createHatching, paintLines, wrapText } from "../canvas/canvas.js";
import { defineLane, keysAtFrame, nearestOf } from "./lane.js";

const NUM_OPEN = 2; // rows below the strip
// By the index of a state. Colour and thickness are redundant: a thin line, half a bar, a whole bar.
const LOOKS = [
  ["faint", 0.16],
  ["active", 0.5],
  ["done", 0.9],
];

export const steps = defineLane({
  kind: "step",
  above: 6,
  below: 6,
  appliesTo: (run, isSecond) => (isSecond ? run.has_states : bandsOf(run).length > 0),
  rows: (run, { isFigure, isDetailed, openSteps }) => {
    const listed = run.steps,
      isFolded = !isFigure && !isDetailed && listed.length > NUM_OPEN;
    const all = listed.map(({ id, name }, step) => ({
      label: isFolded ? name || id : `${id} ${name}`,
      step,
      height: listed.length > 8 && !isFolded ? 14 : isFigure ? 27 : 23,
    }));
    if (!isFolded) return all;
    return [{ label: `${listed.length} steps`, step: null, height: 16 }, ...openSteps.map((step) => all[step])];
  },
  paintLabel: ({ pen, gutter, isFigure, isDetailed }, row) => {
    const names = row.height > 22 && (bandsOf(row.run).length > 1 || !row.run.has_states) ? bandsOf(row.run) : [];
    const words = { model: "model", reference: isFigure || isDetailed ? "ref" : "really" };
    const { font } = pen,
      height = (row.height - 3) / names.length,
      room = gutter - (names.length ? 50 : 14);
    const lines = wrapText(pen, row.label, room, isFigure && row.height > 22 ? 2 : 1);
    if (lines.length > 1) pen.font = font.replace("12px", "10.5px");
    paintLines(pen, lines, 4, row.top + row.height / 2, 11);
    pen.font = font.replace("12px", "11px");
    pen.textAlign = "right";
    names.forEach((name, place) => pen.fillText(words[name], gutter - 9, row.top + (place + 0.5) * height + 0.5));
    pen.font = font;
  },
  paint: (timeline, row) => {
    if (row.step === null) return paintStrip(timeline, row);
    const bands = bandsOf(row.run),
      height = (row.height - 3) / bands.length;
    bands.forEach((name, place) => paintBand(timeline, row, name, row.top + place * height, height));
    paintDifferences(timeline, row, height);
  },
  signs: ({ colours }, { run, step }) => [
    ...run.state_words.map((_, state) => ({
      word: stateWord(run, state),
      paint: (pen, x, y) => paintState(pen, colours, state, x, y),
    })),
    ...(run.differences[step]?.length ? [{ word: "model differs", paint: paintHatched }] : []),
  ],
  describeLabel: (row) => row.label,
  describe: (timeline, row, x) => {
    const { run } = row,
      time = timeline.time(x);
    if (!run.isReferenceAlone && !run.times.length) return null;
    const frame = bandsOf(run).includes("model") ? frameAt(run, time) : gridFrame(run, time);
    if (row.step === null) {
      const active = run.steps.filter((_, step) => stateAt(bandOf({ run, step }, bandsOf(run).at(-1)), frame) === 1);
      return `in progress: ${active.map(({ id, name }) => name || id).join(", ") || "no step"}`;
    }
    const words = (name) => run.state_words[stateAt(bandOf(row, name), frame)] ?? "";
    const parts = bandsOf(run).map((name) => (name === "model" ? words(name) : `reference ${words(name)}`));
    return `${row.label}: ${parts.toReversed().join("; ")}`;
  },
  markAt: (timeline, row, x, y) => {
    if (row.step === null) return null;
    const { run } = row,
      { id } = run.steps[row.step];
    const bands = bandsOf(run),
      isModel = bands.includes("model") && (bands.length === 1 || y > row.top + (row.height - 3) / 2);
    const changes = bandOf(row, isModel ? "model" : "reference").map(([frame]) => frame);
    const change = nearestOf(
      timeline,
      changes.filter((frame) => frame >= 0),
      (frame) => timeOf(run, frame),
      x,
    );
    const isOfStep = (turn) => turn.text.split("->")[0].trim() === id,
      turns = isModel ? run.turns : run.references,
      found = change !== null && keysAtFrame(run, turns, "update", change, isOfStep);
    if (found && found.keys.length) return found;
    if (!isModel) return null;
    const time = timeline.time(x),
      frame = frameAt(run, time),
      isHatched = run.differences[row.step].some(([first, end]) => frame >= first && frame < end);
    const wrong =
      isHatched &&
      run.failures.find((failure) => failure.kind === "wrong state" && frame >= failure.frame && frame < failure.end);
    return wrong ? { keys: [wrong.key].filter(Boolean), time } : null;
  },
  *data(run, counts, isSecond) {
    for (const name of bandsOf(run)) if (!isSecond || name === "model") yield* bandData(run, name);
    for (const [number, spans] of run.differences.entries())
      for (const [first, last] of spans) {
        const span = { time_s: timeOf(run, first), end_s: last < run.times.length ? timeOf(run, last) : run.reached };
        yield { lane: run.steps[number].id, series: "differs", ...span };
      }
  },
});

// The latest frame up to a given one at which the state of a step changed, really or in the model; -1 for none.
export function lastChange(data, step, frame) {
  const bands = ["reference", "model"].map((name) => data.bands[name][step] ?? []);
  return Math.max(-1, ...bands.map((band) => band[countUpTo(band, frame, (piece) => piece[0]) - 1]?.[0] ?? -1));
}

// The steps whose rows are open at a frame: those wrong or in progress since the latest change, then the next to come.
export function findOpenSteps(run, frame) {
  const name = bandsOf(run).at(-1);
  if (!name) return [];
  const ranks = run.steps.map((_, step) => {
    const [state, wanted] = [name, "reference"].map((which) => stateAt(run.bands[which][step] ?? [], frame) ?? 0),
      isWrong = run.differences[step].some(([first, end]) => frame >= first && frame < end),
      rank = isWrong || Math.max(state, wanted) === 1 ? 0 : state === 0 ? 1 : 2;
    return { step, rank, since: rank === 1 ? -step : lastChange(run, step, frame) };
  });
  ranks.sort((a, b) => a.rank - b.rank || b.since - a.since || a.step - b.step);
  const open = ranks.slice(0, NUM_OPEN).map(({ step }) => step);
  return open.sort((a, b) => a - b);
}

// All steps in one bar: done, in progress, and hatched where the state of one is wrong.
function paintStrip(timeline, row) {
  const { pen, view, colours } = timeline,
    { run } = row,
    name = bandsOf(run).at(-1),
    last = name === "model" ? run.reached : run.duration_s,
    height = row.height - 4;
  for (const state of [2, 1])
    for (const [step] of run.steps.entries())
      for (const piece of piecesOf(run, bandOf({ run, step }, name), last)) {
        if (piece.state !== state || piece.end < view.start || piece.start > view.end) continue;
        const left = timeline.x(Math.max(piece.start, view.start));
        pen.fillStyle = colours[LOOKS[state][0]];
        pen.fillRect(left, row.top, Math.max(1, timeline.x(Math.min(piece.end, view.end)) - left), height);
      }
  for (const [step] of run.steps.entries()) paintDifferences(timeline, { run, step, top: row.top - height }, height);
}

function* bandData(run, name) {
  const last = name === "model" ? run.reached : run.duration_s;
  for (const [number, band] of run.bands[name].entries()) {
    const lane = run.steps[number].id;
    for (const { start, end, state } of piecesOf(run, band, last))
      yield { lane, series: name, time_s: start, end_s: end, text: stateWord(run, state) };
  }
}

// The word of a state without its sign.
function stateWord(run, state) {
  return run.state_words[state].replace(/^\P{L}+/u, "");
}

function bandOf(row, name) {
  return row.run.bands[name][row.step] ?? [];
}

function paintBand(timeline, row, name, top, height) {
  const { run } = row,
    { pen, view, colours } = timeline,
    last = name === "model" ? run.reached : run.duration_s;
  for (const { start, end, state } of piecesOf(run, bandOf(row, name), last, frameAt(run, view.start))) {
    if (start > view.end) break;
    const [colour, share] = LOOKS[state],
      left = timeline.x(Math.max(start, view.start)),
      width = Math.max(1, timeline.x(Math.min(end, view.end)) - left);
    pen.fillStyle = colours[colour];
    pen.fillRect(left, top + (height * (1 - share)) / 2, width, height * share);
  }
}

function paintDifferences(timeline, row, height) {
  const { run } = row,
    { pen, view } = timeline,
    differences = run.differences[row.step];
  pen.fillStyle = timeline.hatch ??= createHatching(pen, timeline.colours.ink);
  let painted = 0; // painted up to this x; a span within two pixels of it is skipped
  for (
    let number = countUpTo(differences, frameAt(run, timeline.view.start), (span) => span[1]);
    number < differences.length;
    number += 1
  ) {
    const [first, end] = differences[number],
      start = timeOf(run, first),
      left = timeline.x(Math.max(start, view.start));
    if (start > view.end) break;
    const right = Math.max(
      left + 2,
      timeline.x(Math.min(end < run.times.length ? run.times[end] : run.reached, view.end)),
    );
    if (right > painted + 1)
      pen.fillRect(Math.max(left, painted), row.top + height, right - Math.max(left, painted), height);
    painted = Math.max(painted, right);
  }
}

function paintState(pen, colours, state, x, y) {
  const [colour, share] = LOOKS[state];
  pen.fillStyle = colours[colour];
  pen.fillRect(x - 4.5, y - 4.5 * share, 9, 9 * share);
}

function paintHatched(pen, x, y) {
  pen.fillStyle = createHatching(pen, pen.strokeStyle);
  pen.fillRect(x - 4.5, y - 4.5, 9, 9);
}
