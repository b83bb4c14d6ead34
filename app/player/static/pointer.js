// What the pointer does: seek, select, zoom, pan.

import { GUTTER, MARGIN } from "./axis.js";
import { askPaint, show, zoom } from "./chart.js";
import { setRegion } from "./commands.js";
import { moveTurn } from "./corrections.js";
import { takeKeysFrom } from "./dom.js";
import { follow, offset, TREMBLE } from "./drag.js";
import { markAt, selectMark } from "./marks.js";
import { eventOf } from "./opinions.js";
import { seek } from "./playhead.js";
import { goToEvent, release } from "./selection.js";
import { listeners, shown, state, ui } from "./state.js";
import { say } from "./status.js";
import { holdThreshold, letGo } from "./thresholds.js";

function threshold(x, y) {
  const row = ui.lanes.rowAt(y);
  return row?.kind === "trace" && !row.of && x >= GUTTER && Math.abs(y - ui.lanes.traceY(row, shown.thresholds[row.name])) < 6 ? row : null;
}

function heldTurn(x, y) {
  const row = ui.lanes.rowAt(y);
  const turn = row?.kind === "corrected" && x > GUTTER - 8 ? ui.lanes.layerTurn(state.data, row, x, y) : null;
  return turn?.look === "deleted" ? null : turn;
}

function dragTurn(turn, event) {
  const began = offset(ui.canvas, event)[0], shownTurn = state.data.layer.find((other) => other.key === turn.key);
  goToEvent(eventOf(turn.key), turn.time);
  const isMoved = (later) => Math.abs(offset(ui.canvas, later)[0] - began) >= TREMBLE;
  const at = (later) => turn.time + (isMoved(later) ? ui.lanes.time(offset(ui.canvas, later)[0]) - ui.lanes.time(began) : 0);
  follow(ui.canvas, event, (later) => { shownTurn.time = at(later); askPaint(); }, (last) => {
    shownTurn.time = turn.time;
    if (isMoved(last)) moveTurn(turn, at(last));
    askPaint();
  });
}

function pan(share) {
  const by = share * (ui.lanes.view.end - ui.lanes.view.start);
  show(ui.lanes.view.start + by, ui.lanes.view.end + by);
}

let pressed = null;

export function mountPointer() {
  ui.canvas.addEventListener("pointerdown", (event) => {
    if (!state.data || event.button) return;
    const [x, y] = offset(ui.canvas, event);
    const row = threshold(x, y);
    if (row) return holdThreshold(row.name, row, event);
    const turn = heldTurn(x, y);
    if (turn) return dragTurn({ ...turn }, event);
    if (x < GUTTER - 4) return;
    say("");
    const mark = event.shiftKey ? null : markAt(x, y);
    if (mark) selectMark(mark);
    else if (state.held !== null) release();
    const from = ui.lanes.time(x);
    const isRegion = event.shiftKey;
    const move = (later) => {
      const time = ui.lanes.time(offset(ui.canvas, later)[0]);
      if (mark && Math.abs(offset(ui.canvas, later)[0] - x) < TREMBLE) return;
      if (isRegion) setRegion(Math.max(0, from), time); else seek(time);
    };
    move(event);
    follow(ui.canvas, event, move, () => {});
  });
  ui.canvas.addEventListener("pointermove", (event) => {
    if (!state.data) return;
    const [x, y] = offset(ui.canvas, event);
    ui.canvas.style.cursor = threshold(x, y) ? "ns-resize" : heldTurn(x, y) ? "ew-resize" : x < GUTTER ? "default" : "crosshair";
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
    if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), ui.lanes.time(offset(ui.canvas, event)[0]));
    else if (event.deltaX || event.shiftKey) pan((event.deltaX || event.deltaY) / ui.lanes.inner);
    else return;
    event.preventDefault();
  }, { passive: false });

  ui.map.addEventListener("pointerdown", (event) => {
    if (!state.data) return;
    const move = (later) => {
      const time = (offset(ui.map, later)[0] - GUTTER) / (ui.map.clientWidth - GUTTER - MARGIN) * state.data.duration_s;
      const half = (ui.lanes.view.end - ui.lanes.view.start) / 2;
      show(time - half, time + half);
    };
    move(event);
    follow(ui.map, event, move, () => {});
  });
  document.addEventListener("pointerdown", (event) => {
    state.isHeld = state.isByMouse = true;
    pressed = event.composedPath()[0].closest?.("button, [type=range]") ?? null;
  }, { signal: listeners.signal, capture: true });
  document.addEventListener("keydown", () => { state.isByMouse = false; }, { signal: listeners.signal, capture: true });
  ui.root.addEventListener("change", (event) => { if (state.isByMouse && event.target.matches("select")) takeKeysFrom(event.target); });
  for (const released of ["pointerup", "pointercancel"]) {
    document.addEventListener(released, () => {
      state.isHeld = false;
      setTimeout(() => { letGo(); if (pressed) takeKeysFrom(pressed); }); // when the click that follows is done
    }, { signal: listeners.signal });
  }
}
