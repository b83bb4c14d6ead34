// What Gradio's events call in the browser, by name, with the values of their inputs (`run_script` and `wire` in
// Python). A function returns the values of the event's outputs; of an event with a handler, those of its inputs.

import { chooseFold, isFoldOpen, suggestFold } from "./dom/fold.js";
import { saveLink } from "./dom/dom.js";
import { chooseRun, chooseSplit, findFocus, runToShow } from "./focus.js";
import { announceSaved } from "./panels/provenance.js";
import { applyThresholds } from "./playback/threshold_moves.js";
import { chooseBlind, chooseReviewer } from "./review/review.js";
import { frameAt } from "./state/data.js";
import { convertTheta } from "./state/policy.js";
import { keepInWindow, readKept, readSetting } from "./state/settings.js";
import { DECISIONS } from "./state/signals.js";

const UNCHANGED = { __type__: "update" }; // a skip of Gradio
const findPlayer = () => document.querySelector("#player .ss")?.player; // undefined before it is there

export const clear = () => "";
export const openForm = () => chooseFold("new_run", "open");
export const fillQuestion = (text) => text;
export const fillMessage = (text, typed) => ({ files: typed?.files ?? [], text }); // its pictures stay
export const addStory = (...inputs) => [...inputs.slice(0, -1), readSetting("story")];
export const readThresholds = () => DECISIONS.map((name) => findPlayer().thresholds.shown[name] ?? UNCHANGED);
export const previewThresholds = (speak, update) => void applyThresholds(findPlayer(), { speak, update });
export const readTheta = (theta) => convertTheta(theta);
// the slider that is in use stays as it is
export const showTheta = (id, speak) => (document.activeElement?.closest(`#${id}`) ? UNCHANGED : convertTheta(speak));
export const keepReviewer = (who) => chooseReviewer(findPlayer(), who);
export const keepBlind = (isBlind) => chooseBlind(findPlayer(), isBlind);
export const focusRun = (run) => chooseRun(findPlayer(), run);
export const focusSplit = (split) => chooseSplit(findPlayer(), split);

export function previewTheta(theta) {
  applyThresholds(findPlayer(), { speak: convertTheta(theta) });
  return convertTheta(theta);
}

// The video of the address, to which a typed task belongs.
const taskPlace = () =>
  ["video", "upload", "split", "saved"].map((key) => new URLSearchParams(location.search).get(key));

// Keeps the typed task for a reload of this window; while a run streams, a reload starts it again with its own.
export function keepTask(...texts) {
  if (document.querySelector("#stop").disabled) keepInWindow("task", [taskPlace(), texts]);
}
export const forgetTask = () => keepInWindow("task", null);

export function restoreTask(...texts) {
  const [place, typed] = readKept("task") ?? [],
    isReload = performance.getEntriesByType("navigation")[0].type === "reload";
  return isReload && String(place) === String(taskPlace()) ? typed : texts;
}

// Pauses the video; the last input becomes the frame at the playhead.
export function addPlayhead(...inputs) {
  const player = findPlayer();
  player?.video.pause();
  const frame = player?.data ? Math.max(0, frameAt(player.data, player.video.time)) : 0;
  return [...inputs.slice(0, -1), player ? String(frame) : ""];
}

// Names the buttons that Gradio makes of pictures, for screen readers.
export function labelPictures() {
  const chat = document.querySelector("#chat_turns");
  const label = () => {
    for (const button of chat.querySelectorAll(".image-container > button:not([aria-label])"))
      button.ariaLabel = "Enlarge the picture";
  };
  if (!chat.dataset.isWatched) new MutationObserver(label).observe(chat, { childList: true, subtree: true });
  chat.dataset.isWatched = true;
  label();
}

// Saves the file of a download component; the player's status line names it, or is cleared without one.
export function saveFile(file) {
  announceSaved(findPlayer(), file?.orig_name);
  if (file) saveLink(file.url, file.orig_name);
}

// The first input becomes the run in focus, or of the address.
export function enterBatch(run, ...others) {
  const player = findPlayer();
  return [(player && runToShow(player)) || run || new URLSearchParams(location.search).get("shown"), ...others];
}

// The form is open without a run; the player keeps its own run until another one is chosen.
export function showEntered(name) {
  document.querySelector("#batch_runs").dataset.entered = name ?? "";
  suggestFold("new_run", name || document.querySelector(".wb-run") ? "folded" : "open");
}

// A started run is a row of the list, which the form no longer pushes down.
export function foldStarted(problem) {
  if (!problem && isFoldOpen("new_run")) chooseFold("new_run", "folded");
}

// The reviewer's name and blind mode of this browser, which the player shares.
export function restoreReviewer(who, isBlind) {
  return [readSetting("reviewer") || who || "", isBlind || readSetting("blind") === "yes"];
}

// The last inputs become the split and run in focus.
export function enterReviews(split, run, who, isBlind) {
  const player = findPlayer(),
    seen = player && findFocus(player);
  return [split, run, ...restoreReviewer(who, isBlind), seen?.split ?? "", seen?.run ?? ""];
}
