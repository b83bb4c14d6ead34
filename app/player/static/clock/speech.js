// Speaks the model's responses when the playhead reaches them, with sound from the page's server: the recorded answers
// of a run that has them (`sounds`: pairs of time and number), else a synthetic voice.

import { setStatus } from "../dom/dom.js";

const MAX_CHARS = 1000; // the server speaks no longer text
const LEAD_S = 0.05; // playback from a response on speaks it too
const MAX_STEP_S = 1; // of playback between two ticks, times the rate; a longer one is a seek

export function mountSpeech(player) {
  player.find("speech").hidden = !player.settings.speech_url;
  player.whenGone(() => stop(player));
}

export function toggleSpeech(player) {
  if (!player.settings.speech_url) return setStatus(player, "This page does not speak.");
  player.speech.isOn = !player.speech.isOn;
  player.speech.passed = null;
  if (!player.speech.isOn) stop(player);
  player.find("speech").ariaPressed = player.speech.isOn;
  const heard = player.data?.sounds ? "recorded answers are heard" : "responses are spoken",
    words = player.speech.isOn ? `${heard} during playback. The key ; ends it.` : "responses are not spoken.";
  setStatus(player, `The model's ${words}`);
}

// Speaks the latest response between the last tick and this one; silent while the video is paused, and after a seek.
export function followSpeech(player) {
  if (!player.speech.isOn || !player.data) return;
  const time = player.video.time,
    before = player.speech.passed;
  player.speech.passed = player.video.isPaused ? null : time;
  if (player.video.isPaused) return stop(player);
  const isSeek = before !== null && (time < before || time - before > MAX_STEP_S * player.video.rate);
  if (isSeek) stop(player);
  const from = before === null || isSeek ? time - LEAD_S : before;
  const isNew = (at) => at > from && at <= time,
    { sounds } = player.data;
  if (sounds) return hear(player, ...sounds.filter(([at]) => isNew(at)).map(([, number]) => number));
  const response = player.data.responses.findLast((turn) => isNew(turn.time));
  if (response) speak(player, response.text);
}

// Plays recorded answers one after another: a system may send several in a second.
function hear(player, ...numbers) {
  player.speech.waiting.push(...numbers);
  if (player.speech.sound || !player.speech.waiting.length) return;
  const { run_name: run, video_id: video } = player.data;
  const query = new URLSearchParams({ run, video, number: player.speech.waiting.shift() });
  play(player, `${player.settings.answer_url}?${query}`);
  const next = () => {
    player.speech.sound = null;
    hear(player);
  };
  for (const end of ["ended", "error"]) player.speech.sound.addEventListener(end, next);
}

function speak(player, text) {
  stop(player);
  play(player, `${player.settings.speech_url}?text=${encodeURIComponent(text.slice(0, MAX_CHARS).toWellFormed())}`);
}

function play(player, address) {
  const now = (player.speech.sound = new Audio(address));
  now.playbackRate = player.video.rate;
  now.play().catch((error) => {
    if (now === player.speech.sound && error.name !== "AbortError")
      setStatus(player, `The response cannot be spoken: ${error.message}`);
  });
}

function stop(player) {
  player.speech.sound?.pause();
  player.speech.sound = null;
  player.speech.waiting = [];
}
