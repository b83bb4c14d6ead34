// The run behind a preview: moved thresholds change the decisions of the signals, and everything else still describes
// the run.

import { countUpTo, thresholdWords } from "./data.js";
import { DECISIONS, visibleSignals } from "./signals.js";

const MOST_LETTERS = 24; // of the title of a signal

function movedSignals(player, data) {
  return visibleSignals(data).filter(
    ({ name }) =>
      (DECISIONS.includes(name) ? player.shown.isPreview : name in player.shown.thresholds) &&
      player.shown.thresholds[name] !== data.thresholds[name],
  );
}

// The run with its thresholds that were moved, such as "run at speak 0.50"; "" if none was.
export function runWords(player, data) {
  const moved = data.times.length ? movedSignals(player, data) : [];
  const words = moved.map(({ name, title, policy }) => {
    const short = title.length > MOST_LETTERS ? `${title.slice(0, MOST_LETTERS)}…` : title;
    return data.thresholds[name] === undefined
      ? `an unknown threshold of ${short}`
      : `${short} ${thresholdWords(policy, data.thresholds[name])}`;
  });
  return words.length ? `run at ${words.join(", ")}` : "";
}

// Whether a signal decides at a frame: in the preview if there is one, else in the run.
export function hasDecided(player, data, name, frame) {
  const { hits, alarms } = player.shown.counts[name] ?? {},
    isPreviewed = player.shown.isPreview && hits !== undefined;
  const lists = isPreviewed ? [hits, alarms] : [data.decided[name]];
  return lists.some((frames) => countUpTo(frames, frame) > countUpTo(frames, frame - 1));
}
