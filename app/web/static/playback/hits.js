// The list that the shown moment belongs to, of a search or of what is to settle: N and P then go on to its next and
// previous moments, in any video.

import { createNode } from "../dom/dom.js";
import { setStatus } from "../dom/status.js";
import { stepFailure } from "./failure_stops.js";

// Shows the place of the moment in its search above the failure keys; hides it for a run that no search opened.
export function drawHit(player) {
  const hit = player.data.hit,
    line = player.find("hit");
  line.hidden = !hit;
  if (!hit) return;
  const isSearch = hit.of === "search",
    leave = createNode("button", "", isSearch ? "leave the search" : "leave the list");
  leave.type = "button";
  leave.title = "Let N and P go to the failures of this video again";
  leave.addEventListener("click", () => {
    delete player.data.hit;
    drawHit(player);
  });
  line.replaceChildren(
    createNode(
      "span",
      "",
      `${isSearch ? "Moment " : ""}${hit.number} of ${hit.total} ${isSearch ? "of the search " : "to settle"}`,
    ),
    createNode("b", "", isSearch ? `“${hit.query}”` : ""),
    createNode("span", "", " · N next · P previous "),
    leave,
  );
}

// The button of the page for the next (1) or previous (-1) entry of a list.
const stepButton = (of, by) => document.querySelector(`#${of}_${by > 0 ? "next" : "previous"}`);

// Opens the next (1) or previous (-1) moment of the list; else goes to a failure.
export function stepStop(player, by) {
  const { hit } = player.data,
    button = hit && stepButton(hit.of, by);
  if (button) button.click();
  else stepFailure(player, by);
}

// Opens the next (1) or previous (-1) video of the table.
export function stepVideo(player, by) {
  const button = stepButton("videos", by);
  if (button) button.click();
  else setStatus(player, "The table of videos is not loaded: open Videos in Batch once.");
}

// Goes on after a verdict settled the shown moment; P returns to it.
export function goOnSettling(player) {
  const { hit } = player.data;
  if (hit?.of !== "settle") return;
  if (hit.number < hit.total) stepStop(player, 1);
  else setStatus(player, `Settled. This was the last of ${hit.total} to settle.`);
}
