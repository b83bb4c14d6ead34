// Pointer events: seek, select, zoom, pan.

import { GUTTER, MARGIN } from "../canvas/axis.js";
import { setView, zoom } from "../timeline/chart.js";
import { setRegion } from "./region.js";
import { CLICK_SLOP_PX, pointerOffset, setStatus, showTurns, trackDrag } from "../dom/dom.js";
import { seek } from "../clock/playhead.js";
import { clearSelection, selectMark } from "./selection.js";
import { requestExactRun } from "./threshold_moves.js";

const LINE_LETTERS = 400; // of a line in a tooltip

function pan(player, share) {
  const by = share * (player.timeline.view.end - player.timeline.view.start);
  setView(player, player.timeline.view.start + by, player.timeline.view.end + by);
}

// Selects the event of the mark at a point, or seeks there; returns whether there is a mark.
function pick(player, x, y) {
  const mark = player.timeline.markAt(x, y);
  setStatus(player, "");
  if (mark) selectMark(player, mark);
  else {
    if (player.selectedTime !== null) clearSelection(player);
    seek(player, player.timeline.time(x));
  }
  return mark !== null;
}

function dragRegion(player, event) {
  const timeAt = (moved) => player.timeline.time(pointerOffset(player.canvas, moved)[0]),
    from = Math.max(0, timeAt(event));
  const move = (later) => setRegion(player, from, timeAt(later));
  setStatus(player, "");
  move(event);
  trackDrag(player.canvas, event, move);
}

// A click on the figure picks, and a drag is Plotly's: it zooms.
function pressFigure(player, event) {
  if (!player.data || event.button || !event.target.closest(".draglayer")) return;
  if (event.shiftKey) return dragRegion(player, event);
  const [x, y] = pointerOffset(player.canvas, event),
    gesture = new AbortController();
  const release = (last) => {
    gesture.abort();
    player.signals.hold(false);
    if (last.type === "pointercancel") return;
    player.focus();
    const [endX, endY] = pointerOffset(player.canvas, last);
    if (Math.hypot(endX - x, endY - y) < CLICK_SLOP_PX) pick(player, x, y);
  };
  player.signals.hold(true);
  for (const name of ["pointerup", "pointercancel"])
    document.addEventListener(name, release, { signal: gesture.signal });
}

function describe(player, event) {
  if (!player.data) return;
  const [x, y] = pointerOffset(player.canvas, event);
  player.canvas.style.cursor = player.timeline.gripAt(x, y)?.cursor ?? (x < GUTTER ? "default" : "crosshair");
  const text = event.buttons ? null : player.timeline.describe(x, y);
  player.tip.hidden = !text;
  if (!text) return;
  const cut = (line) => (line.length > LINE_LETTERS ? `${line.slice(0, LINE_LETTERS)}…` : line),
    lines = [text].flat().map((line) => cut(line).replaceAll(/\s+/g, " "));
  player.tip.textContent = showTurns(lines.join("\n"));
  player.tip.style.left = `${Math.min(x + 12, player.timeline.width - Math.min(360, player.tip.offsetWidth) - 8)}px`;
  // beside the pointer in the lowest lane, as nothing is shown below the lanes
  player.tip.style.top = `${Math.max(0, Math.min(y + 16, player.timeline.height - player.tip.offsetHeight))}px`;
}

function turnWheel(player, event) {
  if (!player.data) return;
  if (event.ctrlKey)
    zoom(player, Math.exp(event.deltaY / 300), player.timeline.time(pointerOffset(player.canvas, event)[0]));
  else if (event.deltaX || event.shiftKey) pan(player, (event.deltaX || event.deltaY) / player.timeline.inner);
  else return;
  event.preventDefault();
}

export function mountPointer(player) {
  let pressed = null; // the control on which the pointer is down
  player.listen(player.canvas, "pointerdown", (event) => {
    if (!player.data || event.button) return;
    const [x, y] = pointerOffset(player.canvas, event);
    const grip = player.timeline.gripAt(x, y);
    if (grip) return player.dragTurn(grip, event);
    if (x < GUTTER - 4) return;
    if (event.shiftKey) return dragRegion(player, event);
    const isMark = pick(player, x, y);
    const move = (later) => {
      const at = pointerOffset(player.canvas, later)[0];
      if (!isMark || Math.abs(at - x) >= CLICK_SLOP_PX) seek(player, player.timeline.time(at));
    };
    trackDrag(player.canvas, event, move);
  });
  const figures = player.signals.element;
  player.listen(figures, "pointerdown", (event) => pressFigure(player, event), { capture: true });
  // Plotly would pan
  player.listen(figures, "mousedown", (event) => event.shiftKey && event.stopPropagation(), { capture: true });
  for (const part of [player.canvas, figures]) {
    part.addEventListener("pointermove", (event) => describe(player, event));
    part.addEventListener("pointerleave", () => {
      player.tip.hidden = true;
    });
    part.addEventListener("wheel", (event) => turnWheel(player, event), { passive: false });
  }

  player.listen(player.map, "pointerdown", (event) => {
    if (!player.data) return;
    const { begin_s, duration_s } = player.data;
    const move = (later) => {
      const share = (pointerOffset(player.map, later)[0] - GUTTER) / (player.map.clientWidth - GUTTER - MARGIN),
        time = share * (duration_s - begin_s) + begin_s,
        half = (player.timeline.view.end - player.timeline.view.start) / 2;
      setView(player, time - half, time + half);
    };
    move(event);
    trackDrag(player.map, event, move);
  });
  const press = (event) => {
    player.isPointerDown = player.isMouseActive = true;
    pressed = event.composedPath()[0].closest?.("button, [type=range], .ss-handle") ?? null;
  };
  const onKey = () => {
    player.isMouseActive = false;
  };
  const release = () => {
    player.isPointerDown = false;
    setTimeout(() => {
      requestExactRun(player);
      if (pressed) player.returnFocus(pressed);
    }); // after the click event that follows
  };
  player.listen(document, "pointerdown", press, { capture: true });
  player.listen(document, "keydown", onKey, { capture: true });
  for (const released of ["pointerup", "pointercancel"]) player.listen(document, released, release);
  player.listen(player.root, "change", ({ target }) => {
    if (player.isMouseActive && target.matches("select")) player.returnFocus(target);
  });
}
