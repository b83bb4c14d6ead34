// What the pointer does: seek, select, zoom, pan. The page's last script: it starts the player.

const TREMBLE = 4; // pixels that a click may move

function offset(target, event) {
  const box = target.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function follow(target, event, move, end) {
  target.setPointerCapture(event.pointerId);
  target.addEventListener("pointermove", move);
  target.addEventListener("pointerup", (last) => { target.removeEventListener("pointermove", move); end(last); }, { once: true });
}

function threshold(x, y) {
  const row = lanes.rowAt(y);
  return row?.kind === "trace" && !row.of && x >= GUTTER && Math.abs(y - lanes.traceY(row, shown.thresholds[row.name])) < 6 ? row : null;
}

function heldTurn(x, y) {
  const row = lanes.rowAt(y);
  const turn = row?.kind === "corrected" && x > GUTTER - 8 ? lanes.layerTurn(data, row, x, y) : null;
  return turn?.look === "deleted" ? null : turn;
}

function dragTurn(turn, event) {
  const began = offset(canvas, event)[0], shownTurn = data.layer.find((other) => other.key === turn.key);
  goToEvent(eventOf(turn.key), turn.time);
  const isMoved = (later) => Math.abs(offset(canvas, later)[0] - began) >= TREMBLE;
  const at = (later) => turn.time + (isMoved(later) ? lanes.time(offset(canvas, later)[0]) - lanes.time(began) : 0);
  follow(canvas, event, (later) => { shownTurn.time = at(later); askPaint(); }, (last) => {
    shownTurn.time = turn.time;
    if (isMoved(last)) moveTurn(turn, at(last));
    askPaint();
  });
}

canvas.addEventListener("pointerdown", (event) => {
  if (!data || event.button) return;
  const [x, y] = offset(canvas, event);
  const row = threshold(x, y);
  if (row) return holdThreshold(row.name, row, event);
  const turn = heldTurn(x, y);
  if (turn) return dragTurn({ ...turn }, event);
  if (x < GUTTER - 4) return;
  say("");
  const mark = event.shiftKey ? null : markAt(x, y);
  if (mark) selectMark(mark);
  else if (held !== null) release();
  const from = lanes.time(x);
  const isRegion = event.shiftKey;
  const move = (later) => {
    const time = lanes.time(offset(canvas, later)[0]);
    if (mark && Math.abs(offset(canvas, later)[0] - x) < TREMBLE) return;
    if (isRegion) setRegion(Math.max(0, from), time); else seek(time);
  };
  move(event);
  follow(canvas, event, move, () => {});
});
canvas.addEventListener("pointermove", (event) => {
  if (!data) return;
  const [x, y] = offset(canvas, event);
  canvas.style.cursor = threshold(x, y) ? "ns-resize" : heldTurn(x, y) ? "ew-resize" : x < GUTTER ? "default" : "crosshair";
  const text = event.buttons ? null : lanes.describe(data, x, y);
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text.length > 400 ? `${text.slice(0, 400)}…` : text;
  tip.style.left = `${Math.min(x + 12, lanes.width - Math.min(360, tip.offsetWidth) - 8)}px`;
  tip.style.top = `${y + 16}px`;
});
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
canvas.addEventListener("wheel", (event) => {
  if (!data) return;
  if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), lanes.time(offset(canvas, event)[0]));
  else if (event.deltaX || event.shiftKey) pan((event.deltaX || event.deltaY) / lanes.inner);
  else return;
  event.preventDefault();
}, { passive: false });

function pan(share) {
  const by = share * (lanes.view.end - lanes.view.start);
  show(lanes.view.start + by, lanes.view.end + by);
}

map.addEventListener("pointerdown", (event) => {
  if (!data) return;
  const move = (later) => {
    const time = (offset(map, later)[0] - GUTTER) / (map.clientWidth - GUTTER - MARGIN) * data.duration_s;
    const half = (lanes.view.end - lanes.view.start) / 2;
    show(time - half, time + half);
  };
  move(event);
  follow(map, event, move, () => {});
});

// A control that the mouse has pressed gives the keys back to the player; one that was reached with Tab keeps its own.
function takeKeysFrom(control) {
  if (control === document.activeElement && canvas.offsetParent) canvas.focus({ preventScroll: true });
}

let pressed = null, isByMouse = false;
document.addEventListener("pointerdown", (event) => {
  isHeld = isByMouse = true;
  pressed = event.composedPath()[0].closest?.("button, [type=range]") ?? null;
}, { signal: listeners.signal, capture: true });
document.addEventListener("keydown", () => { isByMouse = false; }, { signal: listeners.signal, capture: true });
root.addEventListener("change", (event) => { if (isByMouse && event.target.matches("select")) takeKeysFrom(event.target); });
for (const released of ["pointerup", "pointercancel"]) {
  document.addEventListener(released, () => {
    isHeld = false;
    setTimeout(() => { letGo(); if (pressed) takeKeysFrom(pressed); }); // when the click that follows is done
  }, { signal: listeners.signal });
}
document.addEventListener("stepscope:stale", () => { if (data) count(); }, { signal: listeners.signal });
document.addEventListener("stepscope:threshold", (event) => moveThresholds(event.detail), { signal: listeners.signal });
const sizes = new ResizeObserver(() => {
  if (canvas.parentElement.clientWidth !== frameWidth) { frameWidth = canvas.parentElement.clientWidth; layOut(); }
});
sizes.observe(canvas.parentElement);
const themes = new MutationObserver(() => { if (element.isConnected) { lanes.readColours(); if (data) repaint(); } });
themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
listeners.signal.addEventListener("abort", () => {
  sizes.disconnect();
  themes.disconnect();
  for (const timer of [idle, sleeping, review.timer]) clearTimeout(timer);
});
watch("value", () => receive(props.value));
receive(props.value);
openAddressedTabs();
drawReview();
send();
tick();
root.unpacked = () => data; // for tests: a run that streams is unpacked as the whole run is
// What can be seen from outside, for tests and consoles.
root.inspect = () => ({
  video: data?.name ?? null, time: screen.time, frame: lastFrame, isPaused: screen.isPaused, rate: screen.rate, captions: screen.captions, tab,
  view: { ...lanes.view }, region: shown.region, isLooping: shown.isLooping, isPreview: shown.isPreview, cursor,
  thresholds: { ...shown.thresholds }, runThresholds: data?.thresholds ?? null, isAtRest: !moved && !wanted,
  counts: Object.fromEntries(DECISIONS.map((name) => [name, {
    hits: shown.counts[name]?.hits.length, misses: shown.counts[name]?.misses.length, alarms: shown.counts[name]?.alarms.length,
  }])),
  said: find("said").textContent, rows: lanes.rows,
  event: data ? currentEvent() : null, opinions: review.state?.opinions ?? {}, layer: data?.layer ?? [], waiting: outbox.all().length, saved: review.saved, isAsking: review.isAsking,
});
