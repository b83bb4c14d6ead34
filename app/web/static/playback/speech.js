// Speaks the model's responses when the playhead reaches them, with sound from the page's server.

import { find } from "../dom/dom.js";
import { setStatus } from "../dom/status.js";
import { host, listeners, state, ui } from "../state/state.js";

const MAX_CHARS = 1000; // the server speaks no longer text
const LEAD_S = 0.05; // playback from a response on speaks it too
const MAX_STEP_S = 1; // of playback between two ticks, times the rate; a longer one is a seek

let isOn = false,
  passed = null,
  sound = null; // whether responses are spoken; time up to which they were; the audio element

export function mountSpeech() {
  find("speech").hidden = !host.settings.speech_url;
  listeners.signal.addEventListener("abort", stop);
}

export function toggleSpeech() {
  if (!host.settings.speech_url) return setStatus("This page does not speak.");
  isOn = !isOn;
  passed = null;
  if (!isOn) stop();
  find("speech").setAttribute("aria-pressed", isOn);
  setStatus(
    isOn ? "The model's responses are spoken during playback. 9 ends it." : "The model's responses are not spoken.",
  );
}

// Speaks the latest response between the last tick and this one; silent while the video is paused, and after a seek.
export function followSpeech() {
  if (!isOn || !state.data) return;
  const time = ui.video.time,
    before = passed;
  passed = ui.video.isPaused ? null : time;
  if (ui.video.isPaused) return stop();
  const isSeek = before !== null && (time < before || time - before > MAX_STEP_S * ui.video.rate);
  if (isSeek) stop();
  const from = before === null || isSeek ? time - LEAD_S : before;
  const response = state.data.responses.findLast((turn) => turn.time > from && turn.time <= time);
  if (response) speak(response.text);
}

function speak(text) {
  stop();
  const now = (sound = new Audio(
    `${host.settings.speech_url}?text=${encodeURIComponent(text.slice(0, MAX_CHARS).toWellFormed())}`,
  ));
  now.playbackRate = ui.video.rate;
  now.play().catch((error) => {
    if (now === sound && error.name !== "AbortError") setStatus(`The response cannot be spoken: ${error.message}`);
  });
}

function stop() {
  sound?.pause();
  sound = null;
}
