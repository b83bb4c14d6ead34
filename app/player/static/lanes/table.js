// All lanes, from the top. Where two runs are compared, those of the second run follow below.

import { fitText } from "../canvas/canvas.js";
import { cache } from "./cache.js";
import { evidence } from "./evidence.js";
import { defineLane } from "./lane.js";
import { corrected, judged } from "./reviewed.js";
import { roots } from "./roots.js";
import { sound } from "./sound.js";
import { states } from "./states.js";
import { steps } from "./steps.js";
import { traces } from "./traces.js";
import { assistant, links, reference, user } from "./turns.js";

const heading = defineLane({
  kind: "heading",
  height: 18,
  appliesTo: (run, isSecond, { isFigure }) => isSecond || (isFigure && run.other !== null),
  rows: (run) => [{ label: `${run.letter}: ${run.run_name || run.branch?.name || "this run"}` }],
  paintLabel: ({ pen, width }, row) => pen.fillText(fitText(pen, row.label, width - 20), 4, row.top + row.height / 2),
});

export const LANES = [
  heading,
  sound,
  user,
  reference,
  corrected,
  links,
  assistant,
  judged,
  roots,
  evidence,
  states,
  steps,
  traces,
  cache,
];
