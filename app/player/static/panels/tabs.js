// The tabs beside the video.

import { layout } from "../timeline/chart.js";
import { drawCurves } from "./curves.js";
import { drawStory } from "./story.js";
import { drawWhatIf } from "./what_if.js";

export function tabNames(player) {
  const { can_review: canReview, can_run: canRun } = player.settings;
  return ["rows", ...(canReview ? ["review"] : []), "curves", ...(canRun ? ["what_if", "story"] : [])];
}

export function openTab(player, name) {
  player.tab = name;
  for (const button of player.root.querySelectorAll("[data-tab]")) {
    button.ariaSelected = button.dataset.tab === name;
    button.tabIndex = button.dataset.tab === name ? 0 : -1;
  }
  for (const panel of ["rows", "review", "curves", "what_if", "story"]) player.find(panel).hidden = name !== panel;
  if (name === "story") drawStory(player);
  if (name === "what_if") drawWhatIf(player);
  if (player.data) layout(player);
  player.drawReview();
  if (name === "curves" && player.data) drawCurves(player, player.find("curves"), player.data);
}

export function nextTab(player, by = 1) {
  const names = tabNames(player);
  return names.at((names.indexOf(player.tab) + by) % names.length);
}

export function openWhatIf(player) {
  player.video.pause();
  openTab(player, "what_if");
  player.find("what_if").querySelector("button")?.focus();
}
