// Creates a player: its parts, their listeners, and the server's first value.

import { updateSound } from "./lanes/sound.js";
import { mountAddress, awaitTabsOfAddress, receive } from "./address.js";
import { mountFocus, receiveChoices } from "./focus.js";
import { layout, paint, requestPaint, reveal, setView } from "./timeline/chart.js";
import { mountCommands } from "./commands.js";
import { mountCorrections, proposeTurn } from "./review/corrections.js";
import { setStatus } from "./dom/dom.js";
import { Receiver, withTimeout } from "./state/increments.js";
import { pagePlayer, Player } from "./state/player.js";
import { drawCurves } from "./panels/curves.js";
import { dragTurn } from "./review/drag.js";
import { mountInspection, receiveInspection, redrawInspection } from "./panels/inspection.js";
import { currentEvent } from "./events/opinions.js";
import { tick } from "./loop.js";
import { PICTURE_S, requestTick, seek } from "./clock/playhead.js";
import { mountSpeech } from "./clock/speech.js";
import { receiveEvidence } from "./playback/evidence.js";
import { mountPointer } from "./playback/pointer.js";
import { Timeline } from "./timeline/timeline.js";
import { mountProvenance } from "./panels/provenance.js";
import { drawReview, mountReview } from "./review/review.js";
import { mountRun, showIncrement, showRun } from "./run.js";
import { mountTheme } from "./dom/theme.js";
import { goToRow } from "./playback/selection.js";
import { SignalLayer } from "./signals/layer.js";
import { sendWaiting } from "./review/sync.js";
import { applyThresholds, dragThreshold, mountThresholds, moveThresholds } from "./playback/threshold_moves.js";
import { mountStory } from "./panels/story.js";
import { mountTour } from "./panels/tour.js";
import { Transcript } from "./panels/transcript.js";
import { VideoPlayer } from "./clock/video.js";

const PICTURE_FIRST_MS = 2000; // at most so long the signals wait for the first picture of the video

const CALLBACKS = {
  tick,
  layout,
  drawReview,
  drawCurves: (player) => drawCurves(player, player.find("curves"), player.data),
  dragTurn,
  moveThreshold: (player, name, value) => {
    moveThresholds(player, { [name]: value });
    player.trigger("shown");
  },
};
const PARTS = [
  mountProvenance,
  mountInspection,
  mountReview,
  mountCorrections,
  mountCommands,
  mountPointer,
  mountSpeech,
];
const PARTS_OF_PAGE = [mountFocus, mountAddress, mountThresholds, mountStory, mountTour, mountRun];

// What the server sends besides runs, by its name in a patch.
const PATCHES = {
  inspection: receiveInspection,
  evidence: showEvidence,
  turn: proposeTurn,
  thresholds: applyThresholds,
  choices: receiveChoices,
};

function showEvidence(player, found) {
  receiveEvidence(player, found);
  redrawInspection(player);
}

function receivePatch(player, text) {
  const patch = text ? JSON.parse(text) : {};
  for (const [name, follow] of Object.entries(PATCHES)) if (name in patch) follow(player, patch[name]);
}

// Returns a player in the page around it, whose markup is there.
export function createPlayer(host) {
  const player = new Player(host, CALLBACKS),
    { settings } = player;
  player.root = player.element.querySelector(".ss");
  for (const name of ["canvas", "map", "head", "tip"]) player[name] = player.find(name);
  player.timeline = new Timeline(player.canvas);
  player.signals = new SignalLayer(player.find("signals"), settings.plotly_url, {
    onLoad: () => player.data && requestPaint(player),
    onZoom: (start, end) => setView(player, start, end),
    onReset: () => setView(player, player.data.begin_s, player.data.duration_s),
    onDrag: (name, valueAt, event) => dragThreshold(player, name, valueAt, event),
    onMove: player.moveThreshold,
    whenIdle: () => player.video.firstPicture(PICTURE_FIRST_MS), // plotly.js keeps the page busy for half a second
  });
  const onMove = () => {
    requestTick(player);
    updateSound(player);
  };
  player.video = new VideoPlayer(`#${settings.video_id} video`, onMove, () =>
    setStatus(player, "The browser cannot play this video past damage in it, and shows no more pictures."),
  );
  player.transcript = new Transcript(player.find("rows"), settings.verdicts, (row) => goToRow(player, row));
  player.receiver = new Receiver({
    ask: (stream, first) => withTimeout(player.server.follow({ stream, first })),
    isGone: () => player.listeners.signal.aborted,
    onRun: (data) => showRun(player, data),
    onGrowth: (added) => showIncrement(player, added),
    onConnection: (words) => {
      const line = document.querySelector(`${settings.hint ? "#live_status" : "#status"} .status-line`);
      if (line) line.textContent = words;
    },
  });
  return player;
}

// Starts a player in the page around it.
export function mount(host) {
  const player = createPlayer(host),
    parts = player.settings.hint ? PARTS : [...PARTS, ...PARTS_OF_PAGE];
  for (const mountPart of parts) mountPart(player);
  watchPage(player);
  followQuestions(player);
  player.root.player = player; // for page.js and published pages
  player.root.unpacked = () => player.data; // for tests: a streaming run must unpack like the whole run
  player.root.inspect = () => inspect(player);
  player.root.preview = (values) => applyThresholds(player, values);
  player.root.receivePatch = (text) => receivePatch(player, text);
  if (!player.settings.hint) awaitTabsOfAddress(player);
  player.watch("value", () => receive(player, player.props.value));
  player.watch("patch", () => receivePatch(player, player.props.patch));
  receive(player, player.props.value);
  drawReview(player);
  sendWaiting(player);
  tick(player);
  if (!player.settings.hint) pagePlayer.resolve(player);
  return player;
}

// Draws again when the page around the player changes; stops when the player is gone.
function watchPage(player) {
  let width = 0;
  mountTheme();
  const sizes = new ResizeObserver(() => {
    if (player.canvas.parentElement.clientWidth === width) return;
    width = player.canvas.parentElement.clientWidth;
    layout(player);
  });
  sizes.observe(player.canvas.parentElement);
  const themes = new MutationObserver(() => {
    if (!player.element.isConnected) return;
    player.timeline.readColours();
    if (player.data) paint(player);
  });
  themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  player.whenGone(() => {
    sizes.disconnect();
    player.transcript.sizes.disconnect();
    themes.disconnect();
    for (const timer of [player.sleeping, player.review.timer]) clearTimeout(timer);
  });
}

// Goes to the time of a question in the panel Ask.
function followQuestions(player) {
  player.listen(document, "click", (event) => {
    const button = event.target.closest?.(".ask-time"); // of a question in the panel Ask
    if (!button || !player.data || player.settings.hint) return; // the second player is that of live sessions
    player.video.pause();
    seek(player, Number(button.dataset.time) + PICTURE_S);
    reveal(player, player.video.time);
  });
}

// The visible state, for tests and the console.
function inspect(player) {
  const { data, review, shown, timeline, video } = player;
  const lengths = ({ hits, misses, alarms }) => ({ hits: hits.length, misses: misses.length, alarms: alarms.length });
  return {
    video: data?.name ?? null,
    time: video.time,
    frame: player.shownFrame,
    isPaused: video.isPaused,
    rate: video.rate,
    captions: video.captions,
    tab: player.tab,
    view: { ...timeline.view },
    region: shown.region,
    isLooping: shown.isLooping,
    isPreview: shown.isPreview,
    cursor: player.stopIndex,
    stop: data?.stops?.[player.stopIndex]?.kind ?? null,
    thresholds: { ...shown.thresholds },
    runThresholds: data?.thresholds ?? null,
    isAtRest: player.thresholds.isAtRest,
    counts: Object.fromEntries(Object.entries(shown.counts).map(([name, counts]) => [name, lengths(counts)])),
    said: player.find("said").textContent,
    rows: timeline.rows.map(({ kind, label, name, top, height }) => ({ kind, label, name, top, height })),
    event: data && currentEvent(player),
    opinions: review.state?.opinions ?? {},
    layer: data?.layer ?? [],
    waiting: player.outbox.all().length,
    saved: review.saved,
    isAsking: review.isAsking,
  };
}
