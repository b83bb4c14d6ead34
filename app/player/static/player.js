// Joins the parts: one clock (the video's), one axis of time, one set of thresholds.

const find = (name) => element.querySelector(`.ss-${name}`);
const root = element.querySelector(".ss");
const canvas = find("canvas"), map = find("map"), head = find("head"), tip = find("tip");
const lanes = new ReviewLanes(canvas);
const screen = new Screen(`#${props.video_id} video`, wake);
const transcript = new Transcript(find("rows"), (row) => goToRow(row));
const listeners = new AbortController(); // there is no unmount hook: one switch for all that is not ours
const shown = { thresholds: { speak: 0.5, update: 0.5 }, counts: {}, isPreview: false, region: null, isLooping: false };
const kinds = new Set(Object.keys(KINDS)), counting = {};
let data = null, cursor = null, lastFrame = -1, lastTime = -1, tab = "rows", pending = 0, sleeping = 0, frameWidth = 0;

const receiver = new Receiver({
  ask: (stream, first) => inTime(server.follow({ stream, first })), isGone: () => listeners.signal.aborted, onRun: draw, onGrowth: grow,
});

// Draws another run, or the first part of one that streams; null for none.
function draw(next) {
  const isSame = data !== null && next?.video_id === data.video_id;
  if (!isSame || ![...next.events, ...(layer()?.turns ?? [])].some(({ key }) => key === review.current)) typedBox()?.blur();
  screen.refresh();
  if (next?.run !== data?.run || !isSame) closeInspection();
  if (next?.run !== data?.run || isSaidOfJudgement) say(""); // of another run, or of another judgement of this one
  data = next;
  root.classList.toggle("ss-has-run", Boolean(data));
  find("empty").textContent = data ? "" : "Press Run: what the assistant says and believes appears here, on the video's clock.";
  settleThresholds();
  if (!data) return clear();
  data.stops = stopsOf(data);
  for (const name of ["previousFailure", "nextFailure"]) find("bar").querySelector(`[data-do=${name}]`).disabled = !canFail(data);
  if (!isSame) {
    lanes.view = { start: 0, end: data.duration_s };
    shown.region = null;
    shown.isLooping = false;
    cursor = null;
    forget();
  }
  if (!OFFERED[review.scope]()) review.scope = find("scope").value = "all";
  screen.caption(data, screen.captions);
  transcript.draw(data);
  drawKinds();
  drawProvenance();
  layOut();
  if (review.wantsCorrected && !data.is_corrected && data.is_finished) judgeAgainst(); // it is the run that is new
  find("against").checked = review.wantsCorrected;
  recall();
  if (data.events.length) send();
  if (data.open_at !== null) { screen.arriveAt(data.open_at); reveal(data.open_at); }
  else if (!isSame) openLinkedMoment();
  if (!currentEvent()) held = null;
  cursor = held === null ? null : failureOf(currentEvent());
  const opened = eventOf(data.open_event);
  if (opened) { openTab("review"); goToEvent(opened); }
}

// Draws what came of the run that streams; on the canvas once per animation frame at most.
function grow(added) {
  transcript.insert(added.map(({ place }) => place));
  screen.appendCaptions(data, added.map(({ row }) => row.turn).filter((turn) => turn.role === "assistant"));
  canvas.setAttribute("aria-valuemax", data.duration_s.toFixed(1));
  count();
  askPaint();
}

function clear() {
  cursor = null;
  forget();
  drawReview();
  say("");
  find("clock").textContent = clockText(0);
  head.style.visibility = "hidden";
  for (const name of ["now", "rows", "curves", "kinds", "counts", "origins"]) find(name).replaceChildren();
  drawBelow();
  lanes.context?.clearRect(0, 0, lanes.width, lanes.height);
  map.getContext("2d").clearRect(0, 0, map.width, map.height);
}

function layOut() {
  if (!data) return;
  data.layer = layerTurns();
  data.isReviewing = tab === "review" && data.events.length > 0;
  data.hasLayer = data.layer.length > 0 && (tab === "review" || data.layer.some((turn) => turn.look !== "same"));
  const height = lanes.arrange(data); // while the tab is hidden, too: lanes of another video must not be drawn with this one
  canvas.setAttribute("aria-valuemax", data.duration_s.toFixed(1));
  if (!canvas.parentElement.clientWidth) return count();
  lanes.resize(canvas.parentElement.clientWidth, height);
  recount();
}

// Whether the boxes of the task have other texts than the run, no matter how they came there.
function isTaskChanged() {
  return Object.entries(data.task).some(([name, text]) => (document.querySelector(`#${name} textarea`)?.value ?? text) !== text);
}

function recount() {
  count();
  repaint();
}

function count() {
  for (const name of DECISIONS) shown.counts[name] = countsOf(name).extend();
  find("counts").textContent = [
    previewWords(),
    isTaskChanged() ? "Goal, steps or user turns have changed since this run: press Run." : "",
  ].filter(Boolean).join(" ");
  if (tab === "curves") drawCurves(find("curves"), data, shown);
}

// The counts that are shown, which grow with a run that streams.
function countsOf(name) {
  const threshold = shown.thresholds[name], known = counting[name], isSame = known?.data === data && known.threshold === threshold;
  return counting[name] = isSame && known.isPreview === shown.isPreview ? known : new EventCounts(data, name, threshold, shown.isPreview);
}

function repaint() {
  if (!canvas.parentElement.clientWidth) return; // it is drawn once the tab is shown
  lanes.paint(data, shown);
  paintMap();
  drawAgain();
}

const MAP_HEIGHT = 18, SLEEP_MS = 250;

function paintMap() {
  const width = lanes.width, height = MAP_HEIGHT, pen = fitCanvas(map, width, height);
  pen.clearRect(0, 0, width, height);
  const at = (time) => GUTTER + time / data.duration_s * (width - GUTTER - MARGIN);
  pen.fillStyle = lanes.colours.faint;
  pen.fillRect(GUTTER, 7, width - GUTTER - MARGIN, 4);
  pen.font = lanes.font;
  pen.textBaseline = "middle";
  pen.fillStyle = lanes.colours.ink;
  pen.fillText(canFail(data) ? `${data.failures.length} failure${data.failures.length === 1 ? "" : "s"}` : "", 4, 9);
  for (const failure of data.stops) {
    pen.fillStyle = !kinds.has(failure.kind) ? lanes.colours.grid : lanes.colours[failure.kind === LOW ? "matched" : "mismatched"];
    pen.fillRect(at(failure.time) - 1, 2, 2, 14);
  }
  pen.strokeStyle = lanes.colours.ink;
  pen.strokeRect(at(lanes.view.start), 0.5, Math.max(3, at(lanes.view.end) - at(lanes.view.start)), height - 1);
}

// Once per animation frame while the video plays, else a few times a second: each frame costs the browser time.
function tick() {
  sleeping = 0;
  if (!element.isConnected) return listeners.abort();
  screen.refresh();
  keepPlace();
  if (screen.isPaused) sleeping = setTimeout(tick, SLEEP_MS);
  else requestAnimationFrame(tick);
  followTime();
}

// What moved or changed is drawn in the next animation frame.
function wake() {
  if (!sleeping) return;
  clearTimeout(sleeping);
  sleeping = 0;
  requestAnimationFrame(tick);
}

function drawAgain() {
  lastFrame = lastTime = -1;
  wake();
}

// Moves the playhead; changes words only when the model's frame changes.
function followTime() {
  if (!data || !canvas.clientWidth) return;
  let time = screen.time;
  if (shown.isLooping && shown.region && (time >= shown.region[1] || time < shown.region[0] - 0.3)) seek(time = shown.region[0]);
  if (time === lastTime) return;
  lastTime = time;
  followView(time);
  const x = lanes.x(time);
  head.style.transform = `translateX(${x}px)`;
  head.style.visibility = x < GUTTER - 1 || x > lanes.width - MARGIN + 1 ? "hidden" : "visible";
  head.dataset.time = time;
  find("clock").textContent = clockText(time);
  find("play").textContent = screen.isPaused ? "▶" : "❚❚";
  if (held !== null && Math.abs(held - time) >= 0.5 / data.fps) release();
  const frame = gridFrame(data, time);
  if (frame === lastFrame) return;
  lastFrame = frame;
  const failure = cursor === null ? null : data.stops[cursor];
  drawNow(find("now"), data, frameAt(data, time), time, failure);
  if (data.events.length) followEvent(time);
  transcript.follow(time, currentEvent() ?? failure);
  canvas.setAttribute("aria-valuenow", time.toFixed(1));
  canvas.setAttribute("aria-valuetext", `${clockText(time)} of ${clockText(data.duration_s)}`);
}

function followView(time) {
  const { start, end } = lanes.view;
  if (screen.isPaused || (time >= start && time <= end)) return;
  show(time - (end - start) * 0.1, time + (end - start) * 0.9);
}

function show(start, end) {
  const length = Math.min(data.duration_s, Math.max(2 / data.fps, end - start));
  const from = Math.min(data.duration_s - length, Math.max(0, start));
  lanes.view = { start: from, end: from + length };
  askPaint();
}

function askPaint() {
  pending ||= requestAnimationFrame(() => { pending = 0; if (data) repaint(); });
}

function zoom(factor, around = screen.time) {
  const { start, end } = lanes.view;
  const middle = Math.min(end, Math.max(start, around));
  show(middle - (middle - start) * factor, middle + (end - middle) * factor);
}

// Returns where the playhead is put, in seconds.
function seek(time) {
  const within = Math.min(Math.max(0, data.duration_s - 0.01), Math.max(0, time));
  screen.time = within;
  return within;
}

function reveal(time) {
  const { start, end } = lanes.view;
  if (time < start || time > end) show(time - (end - start) / 2, time + (end - start) / 2);
}
