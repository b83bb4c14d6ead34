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
import { requestExactRun } from "../playback/threshold_moves.js";

function pan(share) {
  const by = share * (ui.timeline.view.end - ui.timeline.view.start);
  setView(ui.timeline.view.start + by, ui.timeline.view.end + by);
}

let pressed = null;

// Selects the event of the mark at a point, or seeks there; returns whether there is a mark.
function pick(x, y) {
  const mark = ui.timeline.markAt(x, y);
  setStatus("");
  if (mark) selectMark(mark);
  else {
    if (state.selectedTime !== null) clearSelection();
    seek(ui.timeline.time(x));
  }
  return mark !== null;
}

function dragRegion(event) {
  const timeAt = (moved) => ui.timeline.time(pointerOffset(ui.canvas, moved)[0]),
    from = Math.max(0, timeAt(event));
  const move = (later) => setRegion(from, timeAt(later));
  setStatus("");
  move(event);
  trackDrag(ui.canvas, event, move, () => {});
}

// A click on the figure picks, and a drag is Plotly's: it zooms.
function pressFigure(event) {
  if (!state.data || event.button || !event.target.closest(".draglayer")) return;
  if (event.shiftKey) return dragRegion(event);
  const [x, y] = pointerOffset(ui.canvas, event),
    gesture = new AbortController();
  const release = (last) => {
    gesture.abort();
    ui.signals.hold(false);
    if (last.type === "pointercancel") return;
    ui.canvas.focus({ preventScroll: true });
    const [endX, endY] = pointerOffset(ui.canvas, last);
    if (Math.hypot(endX - x, endY - y) < CLICK_SLOP_PX) pick(x, y);
  };
  ui.signals.hold(true);
  for (const name of ["pointerup", "pointercancel"])
    document.addEventListener(name, release, { signal: gesture.signal });
}

function describe(event) {
  if (!state.data) return;
  const [x, y] = pointerOffset(ui.canvas, event);
  ui.canvas.style.cursor = ui.timeline.gripAt(x, y)?.cursor ?? (x < GUTTER ? "default" : "crosshair");
  const text = event.buttons || ui.signals.isMarkHovered ? null : ui.timeline.describe(x, y);
  ui.tip.hidden = !text;
  if (!text) return;
  ui.tip.textContent = text.length > 400 ? `${text.slice(0, 400)}…` : text;
  ui.tip.style.left = `${Math.min(x + 12, ui.timeline.width - Math.min(360, ui.tip.offsetWidth) - 8)}px`;
  ui.tip.style.top = `${y + 16}px`;
}

function turnWheel(event) {
  if (!state.data) return;
  if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), ui.timeline.time(pointerOffset(ui.canvas, event)[0]));
  else if (event.deltaX || event.shiftKey) pan((event.deltaX || event.deltaY) / ui.timeline.inner);
  else return;
  event.preventDefault();
}

export function mountPointer() {
  ui.canvas.addEventListener("pointerdown", (event) => {
    if (!state.data || event.button) return;
    const [x, y] = pointerOffset(ui.canvas, event);
    const grip = ui.timeline.gripAt(x, y);
    if (grip) return grip.drag(event);
    if (x < GUTTER - 4) return;
    if (event.shiftKey) return dragRegion(event);
    const isMark = pick(x, y);
    const move = (later) => {
      const at = pointerOffset(ui.canvas, later)[0];
      if (!isMark || Math.abs(at - x) >= CLICK_SLOP_PX) seek(ui.timeline.time(at));
    };
    trackDrag(ui.canvas, event, move, () => {});
  });
  const figures = ui.signals.element;
  figures.addEventListener("pointerdown", pressFigure, { capture: true });
  figures.addEventListener(
    "mousedown",
    (event) => {
      if (event.shiftKey) event.stopPropagation();
    },
    { capture: true },
  ); // Plotly would pan
  for (const part of [ui.canvas, figures]) {
    part.addEventListener("pointermove", describe);
    part.addEventListener("pointerleave", () => {
      ui.tip.hidden = true;
    });
    part.addEventListener("wheel", turnWheel, { passive: false });
  }

  ui.map.addEventListener("pointerdown", (event) => {
    if (!state.data) return;
    const move = (later) => {
      const time =
        ((pointerOffset(ui.map, later)[0] - GUTTER) / (ui.map.clientWidth - GUTTER - MARGIN)) *
          (state.data.duration_s - state.data.begin_s) +
        state.data.begin_s;
      const half = (ui.timeline.view.end - ui.timeline.view.start) / 2;
      setView(time - half, time + half);
    };
    move(event);
    trackDrag(ui.map, event, move, () => {});
  });
  document.addEventListener(
    "pointerdown",
    (event) => {
      state.isPointerDown = state.isMouseActive = true;
      pressed = event.composedPath()[0].closest?.("button, [type=range], .ss-handle") ?? null;
    },
    { signal: listeners.signal, capture: true },
  );
  document.addEventListener(
    "keydown",
    () => {
      state.isMouseActive = false;
    },
    { signal: listeners.signal, capture: true },
  );
  ui.root.addEventListener("change", (event) => {
    if (state.isMouseActive && event.target.matches("select")) returnFocus(event.target);
  });
  for (const released of ["pointerup", "pointercancel"]) {
    document.addEventListener(
      released,
      () => {
        state.isPointerDown = false;
        setTimeout(() => {
          requestExactRun();
          if (pressed) returnFocus(pressed);
        }); // after the click event that follows
      },
      { signal: listeners.signal },
    );
  }
}
