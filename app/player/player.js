// Joins the parts: one clock (the video's), one axis of time, one set of thresholds.

const find = (name) => element.querySelector(`.ss-${name}`);
const root = element.querySelector(".ss");
const canvas = find("canvas"), map = find("map"), head = find("head"), tip = find("tip");
const lanes = new ReviewLanes(canvas);
const screen = new Screen(`#${props.video_id} video`);
const goTo = (time) => { seek(time); canvas.focus({ preventScroll: true }); };
const transcript = new Transcript(find("rows"), goTo);
const listeners = new AbortController(); // there is no unmount hook: one switch for all that is not ours
const shown = { thresholds: { speak: 0.5, update: 0.5 }, counts: {}, isPreview: false, region: null, isLooping: false };
const kinds = new Set(Object.keys(KINDS));
let data = null, cursor = null, lastFrame = -1, lastTime = -1, tab = "rows", pending = 0, frameWidth = 0, isStale = false;

function draw() {
  const next = props.value ? unpack(props.value) : null, isSame = data !== null && next?.video_id === data.video_id;
  if (!isSame || ![...next.events, ...(layer()?.turns ?? [])].some(({ key }) => key === review.current)) typedBox()?.blur();
  data = next;
  root.classList.toggle("ss-has-run", Boolean(data));
  find("empty").textContent = data ? "" : "Press Run: what the assistant says and believes appears here, on the video's clock.";
  if (!data) return clear();
  shown.isPreview = isStale = false;
  shown.thresholds = { ...data.thresholds };
  for (const name of ["previousFailure", "nextFailure"]) find("bar").querySelector(`[data-do=${name}]`).disabled = !data.has_reference;
  if (!isSame) {
    lanes.view = { start: 0, end: data.duration_s };
    shown.region = null;
    shown.isLooping = false;
    cursor = null;
    forget();
  }
  if (!data.has_reference && ["failures", "reference"].includes(review.scope)) review.scope = find("scope").value = "all";
  screen.caption(data, screen.captions);
  transcript.draw(data);
  drawKinds();
  layOut();
  if (review.wantsCorrected && !data.is_corrected && data.is_finished) judgeAgainst(); // it is the run that is new
  find("against").checked = review.wantsCorrected;
  recall();
  if (data.events.length) send();
  if (data.open_at !== null) { screen.arriveAt(data.open_at); reveal(data.open_at); }
  else if (!isSame) openLinkedMoment();
  const opened = review.events.find((event) => event.key === data.open_event);
  if (opened) { openTab("review"); goToEvent(opened); }
}

function clear() {
  cursor = null;
  isStale = false;
  forget();
  drawReview();
  say("");
  find("clock").textContent = clockText(0);
  head.style.visibility = "hidden";
  for (const name of ["now", "rows", "curves", "kinds", "counts"]) find(name).replaceChildren();
  lanes.context?.clearRect(0, 0, lanes.width, lanes.height);
  map.getContext("2d").clearRect(0, 0, map.width, map.height);
}

function layOut() {
  if (!data || !canvas.parentElement.clientWidth) return;
  data.layer = layerTurns();
  data.isReviewing = tab === "review" && data.events.length > 0;
  data.hasLayer = data.layer.length > 0 && (tab === "review" || data.layer.some((turn) => turn.look !== "same"));
  lanes.resize(canvas.parentElement.clientWidth, lanes.arrange(data));
  canvas.setAttribute("aria-valuemax", data.duration_s.toFixed(1));
  recount();
}

function recount() {
  for (const name of DECISIONS) shown.counts[name] = countEvents(data, name, shown.thresholds[name], shown.isPreview);
  find("counts").textContent = [
    shown.isPreview ? "Preview from the trace: another decision would change what follows. Let go to run it exactly." : "",
    isStale ? "Goal, steps or user turns have changed since this run: press Run." : "",
  ].filter(Boolean).join(" ");
  if (tab === "curves") drawCurves(find("curves"), data, shown);
  repaint();
}

function repaint() {
  lanes.paint(data, shown);
  paintMap();
  lastFrame = lastTime = -1;
}

const MAP_HEIGHT = 18;

function paintMap() {
  const width = lanes.width, height = MAP_HEIGHT, pen = fitCanvas(map, width, height);
  pen.clearRect(0, 0, width, height);
  const at = (time) => GUTTER + time / data.duration_s * (width - GUTTER - MARGIN);
  pen.fillStyle = lanes.colours.faint;
  pen.fillRect(GUTTER, 7, width - GUTTER - MARGIN, 4);
  pen.font = lanes.font;
  pen.textBaseline = "middle";
  pen.fillStyle = lanes.colours.ink;
  pen.fillText(data.has_reference ? `${data.failures.length} failures` : "", 4, 9);
  for (const failure of data.failures) {
    pen.fillStyle = kinds.has(failure.kind) ? lanes.colours.mismatched : lanes.colours.grid;
    pen.fillRect(at(failure.time) - 1, 2, 2, 14);
  }
  pen.strokeStyle = lanes.colours.ink;
  pen.strokeRect(at(lanes.view.start), 0.5, Math.max(3, at(lanes.view.end) - at(lanes.view.start)), height - 1);
}

// Once per animation frame: move the playhead; change words only when the model's frame changes.
function tick() {
  if (!element.isConnected) return listeners.abort();
  requestAnimationFrame(tick);
  screen.refresh();
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
  if (cursor !== null && Math.abs(data.failures[cursor].time - time) > 0.05) { cursor = null; lastFrame = -1; }
  const frame = gridFrame(data, time);
  if (frame === lastFrame) return;
  lastFrame = frame;
  const failure = cursor === null ? null : data.failures[cursor];
  drawNow(find("now"), data, frameAt(data, time), time, failure);
  if (data.events.length) followEvent(time);
  transcript.follow(time, failure);
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

function seek(time) {
  if (!data) return;
  screen.time = Math.min(Math.max(0, data.duration_s - 0.01), Math.max(0, time));
}

function reveal(time) {
  const { start, end } = lanes.view;
  if (time < start || time > end) show(time - (end - start) / 2, time + (end - start) / 2);
}
