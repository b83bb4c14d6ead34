// Pointer events: seek, select, zoom, pan.

import { GUTTER, MARGIN } from "./axis.js";
import { setView, zoom } from "./chart.js";
import { setRegion } from "../commands.js";
import { returnFocus } from "../dom/dom.js";
import { CLICK_SLOP_PX, pointerOffset, trackDrag } from "../dom/drag.js";
import { seek } from "../playback/playhead.js";
import { clearSelection, selectMark } from "../playback/selection.js";
import { listeners, state, ui } from "../state/state.js";
import { setStatus } from "../dom/status.js";
import { requestExactRun } from "../playback/thresholds.js";

function pan(share) {
  const by = share * (ui.timeline.view.end - ui.timeline.view.start);
  setView(ui.timeline.view.start + by, ui.timeline.view.end + by);
}

let pressed = null;

export function mountPointer() {
  ui.canvas.addEventListener("pointerdown", (event) => {
    if (!state.data || event.button) return;
    const [x, y] = pointerOffset(ui.canvas, event);
    const grip = ui.timeline.gripAt(x, y);
    if (grip) return grip.drag(event);
    if (x < GUTTER - 4) return;
    setStatus("");
    const mark = event.shiftKey ? null : ui.timeline.markAt(x, y);
    if (mark) selectMark(mark);
    else if (state.selectedTime !== null) clearSelection();
    const from = ui.timeline.time(x);
    const isRegion = event.shiftKey;
    const move = (later) => {
      const time = ui.timeline.time(pointerOffset(ui.canvas, later)[0]);
      if (mark && Math.abs(pointerOffset(ui.canvas, later)[0] - x) < CLICK_SLOP_PX) return;
      if (isRegion) setRegion(Math.max(0, from), time); else seek(time);
    };
    move(event);
    trackDrag(ui.canvas, event, move, () => {});
  });
  ui.canvas.addEventListener("pointermove", (event) => {
    if (!state.data) return;
    const [x, y] = pointerOffset(ui.canvas, event);
    ui.canvas.style.cursor = ui.timeline.gripAt(x, y)?.cursor ?? (x < GUTTER ? "default" : "crosshair");
    const text = event.buttons ? null : ui.timeline.describe(x, y);
    ui.tip.hidden = !text;
    if (!text) return;
    ui.tip.textContent = text.length > 400 ? `${text.slice(0, 400)}…` : text;
    ui.tip.style.left = `${Math.min(x + 12, ui.timeline.width - Math.min(360, ui.tip.offsetWidth) - 8)}px`;
    ui.tip.style.top = `${y + 16}px`;
  });
  ui.canvas.addEventListener("pointerleave", () => { ui.tip.hidden = true; });
  ui.canvas.addEventListener("wheel", (event) => {
    if (!state.data) return;
    if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), ui.timeline.time(pointerOffset(ui.canvas, event)[0]));
    else if (event.deltaX || event.shiftKey) pan((event.deltaX || event.deltaY) / ui.timeline.inner);
    else return;
    event.preventDefault();
  }, { passive: false });

  ui.map.addEventListener("pointerdown", (event) => {
    if (!state.data) return;
    const move = (later) => {
      const time = (pointerOffset(ui.map, later)[0] - GUTTER) / (ui.map.clientWidth - GUTTER - MARGIN) * state.data.duration_s;
      const half = (ui.timeline.view.end - ui.timeline.view.start) / 2;
      setView(time - half, time + half);
    };
    move(event);
    trackDrag(ui.map, event, move, () => {});
  });
  document.addEventListener("pointerdown", (event) => {
    state.isPointerDown = state.isMouseActive = true;
    pressed = event.composedPath()[0].closest?.("button, [type=range]") ?? null;
  }, { signal: listeners.signal, capture: true });
  document.addEventListener("keydown", () => { state.isMouseActive = false; }, { signal: listeners.signal, capture: true });
  ui.root.addEventListener("change", (event) => { if (state.isMouseActive && event.target.matches("select")) returnFocus(event.target); });
  for (const released of ["pointerup", "pointercancel"]) {
    document.addEventListener(released, () => {
      state.isPointerDown = false;
      setTimeout(() => { requestExactRun(); if (pressed) returnFocus(pressed); }); // after the click event that follows
    }, { signal: listeners.signal });
  }
}
