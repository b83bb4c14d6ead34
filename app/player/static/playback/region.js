// The region of the video that can be looped.

import { setStatus } from "../dom/dom.js";
import { clockText } from "../state/data.js";
import { requestPaint } from "../timeline/chart.js";

export function setRegion(player, from, to) {
  player.shown.region = [Math.min(from, to), Math.max(from, to)];
  setStatus(player, `Region ${regionText(player)}`);
  requestPaint(player);
}

const regionText = (player) => player.shown.region.map((time) => clockText(time)).join(" to ");

export function setLoop(player, isOn) {
  if (isOn && !player.shown.region) setRegion(player, player.timeline.view.start, player.timeline.view.end);
  player.shown.isLooping = isOn;
  player.find("bar").querySelector("[data-do=loop]").ariaPressed = isOn;
  setStatus(player, isOn ? `Loop ${regionText(player)}` : "No loop. R loops the region again, F clears it.");
  requestPaint(player);
}

export function clearRegion(player) {
  if (!player.shown.region) return setStatus(player, "There is no region: I and O set its ends.");
  setLoop(player, false);
  player.shown.region = null;
  setStatus(player, "The region is cleared.");
}
