// The status line.

import { find } from "./dom.js";
import { state } from "../state/state.js";

// Sets the status line. A message about failures or events is cleared when a new judgement arrives.
export function setStatus(words, isOfJudgement = false) {
  find("said").textContent = words;
  state.isStatusOfJudgement = isOfJudgement;
}
