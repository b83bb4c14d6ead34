// The lane of the evidence for the decision of the selected root: a signed bar per picture, or those of a baseline.

import { clockText, frameAt, timeOf } from "../state/data.js";
import { line } from "../canvas/canvas.js";
import { defineLane } from "./lane.js";

const COMPARED = ["log-odds", "random weights"];

export const evidence = defineLane({
  kind: "evidence",
  height: 46,
  above: 4,
  legend: [["▂", "evidence: what a decision loses without a picture, in log-odds; shaded: the fewest last ones"]],
  appliesTo: (run, isSecond, { isFigure }) => !isSecond && !isFigure && run.evidence !== undefined,
  rows: () => [{ label: "evidence" }],
  paintLabel: ({ pen, colours }, { top, height }, { decision, evidence: name }) => {
    pen.fillText("evidence", 4, top + height / 4);
    pen.fillStyle = colours.latency;
    const isKnown = decision?.series[name].some((value) => value !== null),
      words = isKnown ? `${name} to ±${highest(decision, name).toPrecision(2)}` : `${name} not known`;
    pen.fillText(decision ? words : "select a mistake with some", 4, top + (3 * height) / 4);
  },
  paint: (timeline, { run, top, height }, { decision, evidence: name }) => {
    const { pen, colours } = timeline,
      middle = top + height / 2;
    pen.strokeStyle = colours.grid;
    line(pen, timeline.gutter, middle, timeline.width, middle);
    if (!decision) return;
    const { frames, fewest, series } = decision,
      scale = (height / 2 - 2) / highest(decision, name),
      from = timeline.x(timeOf(run, frames.at(-fewest))),
      end = timeline.x(timeOf(run, decision.frame + 1));
    pen.fillStyle = colours.grid;
    if (fewest) pen.fillRect(from, top, end - from, height);
    for (const [number, frame] of frames.entries()) {
      const value = series[name][number] ?? 0,
        left = timeline.x(timeOf(run, frame)),
        right = timeline.x(timeOf(run, frame + 1));
      pen.fillStyle = value < 0 ? colours.mismatched : colours.speak;
      pen.fillRect(left, middle - Math.max(0, value) * scale, Math.max(1, right - left - 1), Math.abs(value) * scale);
    }
  },
  describe: (timeline, { run }, x) => {
    const { decision, evidence: name } = timeline.shown,
      at = decision?.frames.indexOf(frameAt(run, timeline.time(x))) ?? -1;
    if (at < 0) return null;
    const value = decision.series[name][at],
      isFew = at >= decision.frames.length - decision.fewest;
    const words = value === null ? "not known" : `${name} ${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
    return `${clockText(timeOf(run, decision.frames[at]))}  ${words}${isFew ? "; among the fewest last pictures" : ""}`;
  },
});

// The height of the lane; the evidence and that of random weights have one, so that they can be compared.
export function highest({ series }, name) {
  const names = [name, ...(COMPARED.includes(name) ? COMPARED : [])];
  return Math.max(1e-6, ...names.flatMap((one) => series[one].map((value) => Math.abs(value ?? 0))));
}
