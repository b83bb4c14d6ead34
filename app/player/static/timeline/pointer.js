// Pointer events: seek, select, zoom, pan.

import { GUTTER, MARGIN } from "./axis.js";
import { requestPaint, setView, zoom } from "./chart.js";
import { setRegion } from "../commands.js";
import { moveTurn } from "../review/corrections.js";
import { returnFocus } from "../dom/dom.js";
import { CLICK_SLOP_PX, pointerOffset, trackDrag } from "../dom/drag.js";
import { markAt, selectMark } from "./marks.js";
import { eventByKey } from "../review/opinions.js";
import { seek } from "../playback/playhead.js";
import { clearSelection, goToEvent } from "../playback/selection.js";
import { listeners, shown, state, ui } from "../state/state.js";
import { setStatus } from "../dom/status.js";
import { dragThreshold, requestExactRun } from "../playback/thresholds.js";

function thresholdRowAt(x, y) {
  const row = ui.lanes.rowAt(y);
  return row?.kind === "trace" && !row.of && x >= GUTTER && Math.abs(y - ui.lanes.traceY(row, shown.thresholds[row.name])) < 6 ? row : null;
}

function turnAt(x, y) {
  const row = ui.lanes.rowAt(y);
  const turn = row?.kind === "corrected" && x > GUTTER - 8 ? ui.lanes.layerTurn(state.data, row, x, y) : null;
  return turn?.look === "deleted" ? null : turn;
}

function dragTurn(turn, event) {
  const began = pointerOffset(ui.canvas, event)[0], shownTurn = state.data.layer.find((other) => other.key === turn.key);
  goToEvent(eventByKey(turn.key), turn.time);
  const isMoved = (later) => Math.abs(pointerOffset(ui.canvas, later)[0] - began) >= CLICK_SLOP_PX;
  const at = (later) => turn.time + (isMoved(later) ? ui.lanes.time(pointerOffset(ui.canvas, later)[0]) - ui.lanes.time(began) : 0);
  trackDrag(ui.canvas, event, (later) => { shownTurn.time = at(later); requestPaint(); }, (last) => {
    shownTurn.time = turn.time;
    if (isMoved(last)) moveTurn(turn, at(last));
    requestPaint();
  });
}

function pan(share) {
  const by = share * (ui.lanes.view.end - ui.lanes.view.start);
  setView(ui.lanes.view.start + by, ui.lanes.view.end + by);
}

let pressed = null;

export function mountPointer() {
  ui.canvas.addEventListener("pointerdown", (event) => {
    if (!state.data || event.button) return;
    const [x, y] = pointerOffset(ui.canvas, event);
    const row = thresholdRowAt(x, y);
    if (row) return dragThreshold(row.name, row, event);
    const turn = turnAt(x, y);
    if (turn) return dragTurn({ ...turn }, event);
    if (x < GUTTER - 4) return;
    setStatus("");
    const mark = event.shiftKey ? null : markAt(x, y);
    if (mark) selectMark(mark);
    else if (state.selectedTime !== null) clearSelection();
    const from = ui.lanes.time(x);
    const isRegion = event.shiftKey;
    const move = (later) => {
      const time = ui.lanes.time(pointerOffset(ui.canvas, later)[0]);
      if (mark && Math.abs(pointerOffset(ui.canvas, later)[0] - x) < CLICK_SLOP_PX) return;
      if (isRegion) setRegion(Math.max(0, from), time); else seek(time);
    };
    move(event);
    trackDrag(ui.canvas, event, move, () => {});
  });
  ui.canvas.addEventListener("pointermove", (event) => {
    if (!state.data) return;
    const [x, y] = pointerOffset(ui.canvas, event);
    ui.canvas.style.cursor = thresholdRowAt(x, y) ? "ns-resize" : turnAt(x, y) ? "ew-resize" : x < GUTTER ? "default" : "crosshair";
    const text = event.buttons ? null : ui.lanes.describe(state.data, x, y);
    ui.tip.hidden = !text;
    if (!text) return;
    ui.tip.textContent = text.length > 400 ? `${text.slice(0, 400)}…` : text;
    ui.tip.style.left = `${Math.min(x + 12, ui.lanes.width - Math.min(360, ui.tip.offsetWidth) - 8)}px`;
    ui.tip.style.top = `${y + 16}px`;
  });
  ui.canvas.addEventListener("pointerleave", () => { ui.tip.hidden = true; });
  ui.canvas.addEventListener("wheel", (event) => {
    if (!state.data) return;
    if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), ui.lanes.time(pointerOffset(ui.canvas, event)[0]));
    else if (event.deltaX || event.shiftKey) pan((event.deltaX || event.deltaY) / ui.lanes.inner);
    else return;
    event.preventDefault();
  }, { passive: false });

  ui.map.addEventListener("pointerdown", (event) => {
    if (!state.data) return;
    const move = (later) => {
      const time = (pointerOffset(ui.map, later)[0] - GUTTER) / (ui.map.clientWidth - GUTTER - MARGIN) * state.data.duration_s;
      const half = (ui.lanes.view.end - ui.lanes.view.start) / 2;
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
