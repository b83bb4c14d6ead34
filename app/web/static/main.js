// Starts the player: creates its parts, adds their listeners, and shows the server's first value.

import { mountAddress, openTabsOfAddress, receive } from "./address.js";
import { layout, paint, requestPaint, setView, updateCounts } from "./timeline/chart.js";
import { mountCommands } from "./commands.js";
import { mountCorrections } from "./review/corrections.js";
import { frameAt } from "./state/data.js";
import { find } from "./dom/dom.js";
import { mountFailureStops } from "./playback/failure_stops.js";
import { Receiver, withTimeout } from "./state/increments.js";
import { mountInspection } from "./panels/inspection.js";
import { currentEvent } from "./review/opinions.js";
import { outbox } from "./review/outbox.js";
import { tick } from "./playback/playback.js";
import { requestTick } from "./playback/playhead.js";
import { mountSpeech } from "./playback/speech.js";
import { mountPointer } from "./timeline/pointer.js";
import { Timeline } from "./timeline/timeline.js";
import { mountProvenance } from "./panels/provenance.js";
import { drawReview, mountReview } from "./review/review.js";
import { showIncrement, showRun } from "./run.js";
import { goToRow } from "./playback/selection.js";
import { host, listeners, review, shown, state, thresholds, ui } from "./state/state.js";
import { SignalLayer } from "./signals/layer.js";
import { sendWaiting } from "./review/sync.js";
import { applyThresholds, dragThreshold, mountThresholds, moveThresholds } from "./playback/threshold_moves.js";
import { mountTour } from "./panels/tour.js";
import { Transcript } from "./panels/transcript.js";
import { VideoPlayer } from "./playback/video.js";

const PICTURE_FIRST_MS = 2000; // at most so long the signals wait for the first picture of the video

export function mount(given) {
  Object.assign(host, given);
  ui.root = host.element.querySelector(".ss");
  for (const name of ["canvas", "map", "head", "tip"]) ui[name] = find(name);
  ui.timeline = new Timeline(ui.canvas);
  ui.moveThreshold = (name, value) => {
    moveThresholds({ [name]: value });
    host.trigger("shown");
  };
  ui.signals = new SignalLayer(find("signals"), host.settings.plotly_url, {
    onLoad: () => {
      if (state.data) requestPaint();
    },
    onZoom: setView,
    onReset: () => setView(state.data.begin_s, state.data.duration_s),
    onHover: (isOver) => {
      ui.tip.hidden ||= isOver;
    },
    onDrag: dragThreshold,
    onMove: ui.moveThreshold,
    whenIdle: () => ui.video.firstPicture(PICTURE_FIRST_MS), // plotly.js keeps the page busy for half a second
  });
  ui.video = new VideoPlayer(`#${host.settings.video_id} video`, requestTick);
  ui.transcript = new Transcript(find("rows"), (row) => goToRow(row));
  ui.receiver = new Receiver({
    ask: (stream, first) => withTimeout(host.server.follow({ stream, first })),
    isGone: () => listeners.signal.aborted,
    onRun: showRun,
    onGrowth: showIncrement,
  });
  Object.assign(ui, { tick, drawReview });
  for (const mountPart of [
    mountProvenance,
    mountInspection,
    mountReview,
    mountFailureStops,
    mountCorrections,
    mountCommands,
    mountPointer,
    mountSpeech,
  ])
    mountPart();
  // of the page; a second player has a hint
  if (!host.settings.hint) for (const mountPart of [mountAddress, mountThresholds, mountTour]) mountPart();
  watchPage();
  exposeFrame();
  exposeForTests();
  host.watch("value", () => receive(host.props.value));
  receive(host.props.value);
  if (!host.settings.hint) openTabsOfAddress();
  drawReview();
  sendWaiting();
  tick();
}

// Draws again when the page around the player changes; stops when the player is gone.
function watchPage() {
  let width = 0;
  document.addEventListener(
    "stepscope:stale",
    () => {
      if (state.data) updateCounts();
    },
    { signal: listeners.signal },
  );
  if (!host.settings.hint)
    document.addEventListener("stepscope:threshold", (event) => applyThresholds(event.detail), {
      signal: listeners.signal,
    });
  const sizes = new ResizeObserver(() => {
    if (ui.canvas.parentElement.clientWidth !== width) {
      width = ui.canvas.parentElement.clientWidth;
      layout();
    }
  });
  sizes.observe(ui.canvas.parentElement);
  const themes = new MutationObserver(() => {
    if (host.element.isConnected) {
      ui.timeline.readColours();
      if (state.data) paint();
    }
  });
  themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  listeners.signal.addEventListener("abort", () => {
    sizes.disconnect();
    ui.transcript.sizes.disconnect();
    themes.disconnect();
    for (const timer of [state.sleeping, review.timer]) clearTimeout(timer);
  });
}

// For the panel below the player: pauses, and returns the frame at the playhead.
function exposeFrame() {
  ui.root.stopAtFrame = () => {
    ui.video.pause();
    return state.data ? Math.max(0, frameAt(state.data, ui.video.time)) : 0;
  };
}

function exposeForTests() {
  ui.root.unpacked = () => state.data; // for tests: a streaming run must unpack like the whole run
  // The visible state, for tests and the console.
  ui.root.inspect = () => ({
    video: state.data?.name ?? null,
    time: ui.video.time,
    frame: state.shownFrame,
    isPaused: ui.video.isPaused,
    rate: ui.video.rate,
    captions: ui.video.captions,
    tab: state.tab,
    view: { ...ui.timeline.view },
    region: shown.region,
    isLooping: shown.isLooping,
    isPreview: shown.isPreview,
    cursor: state.stopIndex,
    thresholds: { ...shown.thresholds },
    runThresholds: state.data?.thresholds ?? null,
    isAtRest: thresholds.isAtRest,
    counts: Object.fromEntries(
      Object.keys(shown.counts).map((name) => [
        name,
        {
          hits: shown.counts[name]?.hits.length,
          misses: shown.counts[name]?.misses.length,
          alarms: shown.counts[name]?.alarms.length,
        },
      ]),
    ),
    said: find("said").textContent,
    rows: ui.timeline.rows.map(({ kind, label, name, top, height }) => ({ kind, label, name, top, height })),
    event: state.data ? currentEvent() : null,
    opinions: review.state?.opinions ?? {},
    layer: state.data?.layer ?? [],
    waiting: outbox.all().length,
    saved: review.saved,
    isAsking: review.isAsking,
  });
}
