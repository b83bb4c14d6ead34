// The animation loop that follows the video's clock.

import { updateAddress } from "./address.js";
import { drawFocus } from "./focus.js";
import { GUTTER, MARGIN } from "./canvas/axis.js";
import { followSteps, followTask, setView } from "./timeline/chart.js";
import { clockText, frameAt, gridFrame } from "./state/data.js";
import { drawNowPanel } from "./panels/now_panel.js";
import { currentEvent } from "./events/opinions.js";
import { drawOnlyKind } from "./playback/failure_stops.js";
import { redrawPlayhead, seek } from "./clock/playhead.js";
import { waitsForRelease } from "./dom/dom.js";
import { clearSelection, followEvent } from "./playback/selection.js";
import { followSpeech } from "./clock/speech.js";

const SLEEP_MS = 250;

// Runs once per animation frame during playback, otherwise a few times a second to save power.
export function tick(player) {
  player.sleeping = 0;
  if (!player.element.isConnected) return player.listeners.abort();
  player.video.refresh();
  updateAddress(player);
  drawFocus(player);
  followTask(player);
  if (player.video.isPaused) player.sleeping = setTimeout(() => tick(player), SLEEP_MS);
  else requestAnimationFrame(() => tick(player));
  updatePlayhead(player);
  followSpeech(player);
}

function followApproach(player, time) {
  const { from, at, selected, beganMs } = player.approach,
    played = from + ((performance.now() - beganMs) / 1000) * player.video.rate; // at most: a busy page may lag behind
  const isElsewhere = time < from - 0.1 || time > played + 1 || player.selectedTime !== selected;
  if (isElsewhere || time >= at) player.approach = null;
  if (player.approach || isElsewhere) return time;
  player.video.pause();
  return seek(player, at);
}

// Moves the playhead; updates texts only when the model's frame changes. A command runs it first: what it acts on is
// then what lies at the playhead, even right after a seek.
export function updatePlayhead(player) {
  if (!player.data || !player.canvas.clientWidth) return;
  let time = player.video.time;
  const [from, to] = (player.shown.isLooping && player.shown.region) || [-Infinity, Infinity];
  if (time >= to || time < from - 0.3) seek(player, (time = from));
  if (time === player.lastTime) return;
  if (player.approach) time = followApproach(player, time);
  player.lastTime = time;
  scrollView(player, time);
  const x = player.timeline.x(time);
  player.head.style.transform = `translateX(${x}px)`;
  player.head.style.visibility = x < GUTTER - 1 || x > player.timeline.width - MARGIN + 1 ? "hidden" : "visible";
  player.head.dataset.time = time;
  player.find("clock").textContent = clockText(time);
  player.find("play").textContent = player.video.isPaused ? "▶" : "❚❚";
  player.find("play").ariaLabel = player.video.isPaused ? "Play" : "Pause";
  if (!player.approach && player.selectedTime !== null && Math.abs(player.selectedTime - time) >= 0.5 / player.data.fps)
    clearSelection(player);
  const frame = gridFrame(player.data, time);
  if (frame === player.lastFrame || waitsForRelease(player.find("now"), () => redrawPlayhead(player))) return;
  player.lastFrame = player.shownFrame = frame;
  const failure = player.stopIndex === null ? null : player.data.stops[player.stopIndex];
  followSteps(player, frameAt(player.data, time));
  drawOnlyKind(player, failure);
  drawNowPanel(player, player.find("now"), player.data, frameAt(player.data, time), time, failure);
  if (player.data.events.length) followEvent(player, time);
  player.transcript.follow(time, currentEvent(player) ?? failure, player.selectedTime !== null);
  player.canvas.ariaValueNow = time.toFixed(1);
  player.canvas.ariaValueText = `${clockText(time)} of ${clockText(player.data.duration_s)}`;
}

function scrollView(player, time) {
  const { start, end } = player.timeline.view;
  if (player.video.isPaused || (time >= start && time <= end)) return;
  setView(player, time - (end - start) * 0.1, time + (end - start) * 0.9);
}
