// The tabs beside the video.

import { layout } from "../timeline/chart.js";
import { drawCurves } from "./curves.js";
import { find } from "../dom/dom.js";
import { host, state, ui } from "../state/state.js";

export function tabNames() {
  return host.settings.can_review ? ["rows", "review", "curves"] : ["rows", "curves"];
}

export function openTab(name) {
  state.tab = name;
  for (const button of ui.root.querySelectorAll("[data-tab]")) {
    button.setAttribute("aria-selected", button.dataset.tab === name);
    button.tabIndex = button.dataset.tab === name ? 0 : -1;
  }
  for (const panel of ["rows", "review", "curves"]) find(panel).hidden = name !== panel;
  if (state.data) layout();
  ui.drawReview();
  if (name === "curves" && state.data) drawCurves(find("curves"), state.data);
}

export function nextTab() {
  const names = tabNames();
  return names[(names.indexOf(state.tab) + 1) % names.length];
}
