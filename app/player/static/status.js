// The message line.

import { find } from "./dom.js";
import { state } from "./state.js";

// Writes the message line; a message about failures or events is gone with the judgement that it speaks of.
export function say(words, isOfJudgement = false) {
  find("said").textContent = words;
  state.isSaidOfJudgement = isOfJudgement;
}
