// What Gradio's events call in the browser, by name, with the values of their inputs (`run_script` and `wire` in
// Python). A function returns the values of the event's outputs; of an event with a handler, those of its inputs.

import { chooseFold, isFoldOpen } from "./dom/fold.js";
import { saveLink } from "./dom/dom.js";
import { chooseRun, chooseSplit, findFocus, runToShow } from "./focus.js";
import { announceSaved } from "./panels/provenance.js";
import { applyThresholds } from "./playback/threshold_moves.js";
import { chooseBlind, chooseReviewer } from "./review/review.js";
import { frameAt } from "./state/data.js";
import { pagePlayer } from "./state/player.js";
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

// An upload does not get the task of the video before it, unless that was an upload, too. What is typed stays.
export function clearTask(...texts) {
  const { data, address } = findPlayer(),
    task = taskPlace()[0] === null ? [] : Object.values((data ?? address.nothing)?.task ?? {});
  return texts.map((text, at) => (text === task[at] ? "" : UNCHANGED));
}

// The first empty box of goal and steps has the focus, of a form that is open.
export function focusTask() {
  const boxes = ["goal", "steps"].map((name) => document.querySelector(`#${name} textarea`));
  boxes.find((box) => box.checkVisibility() && !box.value)?.focus();
}
export const forgetTask = () => keepInWindow("task", null);

export function restoreTask(...texts) {
  const [place, typed] = readKept("task") ?? [],
    isReload = performance.getEntriesByType("navigation")[0].type === "reload";
  return isReload && String(place) === String(taskPlace()) ? typed : texts;
}

// Pauses the video, and asks at the playhead; `command` says where.
export function askAtPlayhead(command, text) {
  const { data, video, trigger } = findPlayer();
  video.pause();
  trigger(command, { text, frame: data ? Math.max(0, frameAt(data, video.time)) : 0 });
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

// Shows the run in focus; the page may begin with this tab.
export async function enterBatch() {
  const player = await pagePlayer.promise;
  player.trigger("enter_batch", { run: runToShow(player) });
}

// A started run is a row of the list, which the form no longer pushes down.
export function foldStarted(problem) {
  if (!problem && isFoldOpen("new_run")) chooseFold("new_run", "folded");
}

// Shows the split and run in focus to the reviewer of this browser, which the player shares.
export async function enterReviews(who, isBlind) {
  const player = await pagePlayer.promise,
    { split, run } = findFocus(player),
    known = [readSetting("reviewer") || who || "", isBlind || readSetting("blind") === "yes"];
  player.trigger("enter_reviews", { split, run, reviewer: known[0], is_blind: known[1] });
  return known;
}
