// The lane of the assistant's own state, such as silent, standby or respond: a band with the word where it fits.

import { assistantState, clockText, frameAt, piecesOf } from "../state/data.js";
import { fitText } from "../canvas/canvas.js";
import { defineLane } from "./lane.js";

const LOOKS = {
  silent: "grid",
  silence: "grid",
  listen: "grid",
  standby: "active",
  respond: "done",
  response: "done",
  speak: "done",
  delegate: "user",
  dropped: "mismatched",
  "no picture": "grid",
  "not reached": "faint",
};
const OTHERS = ["latency", "reference", "speak", "update"]; // colours of a model's own words, in turn

export const states = defineLane({
  kind: "state",
  height: 20,
  above: 4,
  below: 2,
  appliesTo: (run) => run.assistant_states.length > 0,
  rows: () => [{ label: "state" }],
  data: (run) =>
    [...piecesOf(run, run.assistant_states, run.reached)]
      .filter(({ state }) => state !== null)
      .map(({ start, end, state }) => ({ lane: "state", series: "state", time_s: start, end_s: end, text: state })),
  paint: (timeline, { run, top, height }) => {
    const { pen, view, colours } = timeline,
      pieces = piecesOf(run, run.assistant_states, run.reached, frameAt(run, view.start));
    let painted = -1; // up to this x; a piece within a pixel of it is skipped
    for (const { start, end, state: word } of pieces) {
      if (start > view.end) break;
      const left = timeline.x(Math.max(start, view.start)),
        right = timeline.x(Math.min(end, view.end));
      if (word === null || right <= painted + 1) continue;
      const from = Math.max(left, painted),
        width = Math.max(1, right - from);
      const colour = colourOf(run, word);
      pen.globalAlpha = colour === "grid" ? 1 : 0.3;
      pen.fillStyle = colours[colour];
      pen.fillRect(from, top + 2, width, height - 4);
      pen.globalAlpha = 1;
      pen.fillRect(from, top + 2, Math.min(2, width), height - 4);
      pen.fillStyle = colours.ink;
      if (width > 24) pen.fillText(fitText(pen, word, width - 8), from + 5, top + height / 2);
      painted = right;
    }
  },
  describe: (timeline, { run }, x) => {
    if (!run.times.length) return null;
    const frame = frameAt(run, timeline.time(x)),
      word = assistantState(run, frame);
    return word ? `${clockText(run.times[frame])}  ${word}` : null;
  },
});

function colourOf(run, word) {
  if (Object.hasOwn(LOOKS, word)) return LOOKS[word];
  run.ownStates ??= [...new Set(run.assistant_states.map((piece) => piece[1]))]
    .filter((known) => known !== null && !Object.hasOwn(LOOKS, known))
    .sort();
  return OTHERS[run.ownStates.indexOf(word) % OTHERS.length];
}
