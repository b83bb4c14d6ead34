// The status line.

import { showTurns } from "./dom.js";
import { writeSetting } from "../state/settings.js";

// Sets the status line. A message about failures or events is cleared when a new judgement arrives.
export function setStatus(player, words, isOfJudgement = false) {
  player.find("said").textContent = showTurns(words);
  player.isStatusOfJudgement = isOfJudgement;
}

// Keeps a setting of this browser, or says that it cannot.
export function keepSetting(player, name, value) {
  if (!writeSetting(name, value))
    setStatus(player, "This browser forbids storage: names are forgotten when the window is closed.");
}
