// The search that the shown moment belongs to: N and P then go on to its next and previous moments, in any video.

import { createNode } from "../dom/dom.js";
import { stepFailure } from "./failure_stops.js";

// Shows the place of the moment in its search above the failure keys; hides it for a run that no search opened.
export function drawHit(player) {
  const hit = player.data.hit,
    line = player.find("hit");
  line.hidden = !hit;
  if (!hit) return;
  const leave = createNode("button", "", "leave the search");
  leave.type = "button";
  leave.title = "Let N and P go to the failures of this video again";
  leave.addEventListener("click", () => {
    delete player.data.hit;
    drawHit(player);
  });
  line.replaceChildren(
    createNode("span", "", `Moment ${hit.number} of ${hit.total} of the search “`),
    createNode("b", "", hit.query),
    createNode("span", "", "” · N next · P previous "),
    leave,
  );
}

// Opens the next (1) or previous (-1) moment of the search, through a button of the page; else goes to a failure.
export function stepStop(player, by) {
  const button = player.data.hit && document.querySelector(by > 0 ? "#search_next" : "#search_previous");
  if (button) button.click();
  else stepFailure(player, by);
}
