// What the pointer does: seek, zoom, pan, thresholds. The page's last script: it starts the player.

// Thresholds: every move is a preview in the browser; letting go asks the server for the exact run.
let moved = null, idle = 0, isHeld = false;

function preview(name, threshold) {
  if (!data) return;
  moved = { ...shown.thresholds, ...moved, [name]: threshold };
  shown.thresholds = { ...moved };
  shown.isPreview = DECISIONS.some((decision) => moved[decision] !== data.thresholds[decision]);
  recount();
  clearTimeout(idle);
  if (!isHeld) idle = setTimeout(letGo, 700);
}

function letGo() {
  clearTimeout(idle);
  if (!moved || !data) return;
  const wanted = moved;
  moved = null;
  if (DECISIONS.some((name) => wanted[name] !== data.thresholds[name])) trigger("thresholds", wanted);
}

function holdThreshold(name, row, event) {
  isHeld = true;
  const move = (later) => preview(name, Math.round(lanes.traceProb(row, offset(canvas, later)[1]) * 100) / 100);
  follow(canvas, event, move, () => {});
}

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
  goToEvent(review.events.find((found) => found.key === turn.key));
  const isMoved = (later) => Math.abs(offset(canvas, later)[0] - began) >= 4; // a click trembles
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
  const from = lanes.time(x);
  const isRegion = event.shiftKey;
  const move = (later) => {
    const time = lanes.time(offset(canvas, later)[0]);
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

document.addEventListener("pointerdown", () => { isHeld = true; }, { signal: listeners.signal, capture: true });
document.addEventListener("pointerup", () => { isHeld = false; setTimeout(letGo); }, { signal: listeners.signal });
document.addEventListener("stepscope:stale", () => { isStale = true; if (data) recount(); }, { signal: listeners.signal });
document.addEventListener("stepscope:threshold", (event) => preview(event.detail.name, event.detail.value), { signal: listeners.signal });
const sizes = new ResizeObserver(() => {
  if (canvas.parentElement.clientWidth !== frameWidth) { frameWidth = canvas.parentElement.clientWidth; layOut(); }
});
sizes.observe(canvas.parentElement);
const themes = new MutationObserver(() => { lanes.readColours(); if (data) repaint(); });
themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
listeners.signal.addEventListener("abort", () => {
  sizes.disconnect();
  themes.disconnect();
  for (const timer of [idle, review.timer]) clearTimeout(timer);
});
watch("value", draw);
draw();
drawReview();
send();
tick();
// What can be seen from outside, for tests and consoles.
root.inspect = () => ({
  video: data?.name ?? null, time: screen.time, frame: lastFrame, isPaused: screen.isPaused, rate: screen.rate, captions: screen.captions, tab,
  view: { ...lanes.view }, region: shown.region, isLooping: shown.isLooping, isPreview: shown.isPreview, cursor,
  thresholds: { ...shown.thresholds },
  counts: Object.fromEntries(DECISIONS.map((name) => [name, {
    hits: shown.counts[name]?.hits.length, misses: shown.counts[name]?.misses.length, alarms: shown.counts[name]?.alarms.length,
  }])),
  said: find("said").textContent, rows: lanes.rows,
  event: data ? currentEvent() : null, opinions: review.state?.opinions ?? {}, layer: data?.layer ?? [], waiting: outbox.all().length, saved: review.saved,
});
