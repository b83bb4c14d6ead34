// The place in the address: a reload, Back and a restart of the server come back to the video, run, second and tabs.

import { reveal } from "./chart.js";
import { secondsOf } from "./data.js";
import { seek } from "./playhead.js";
import { listeners, state, ui } from "./state.js";
import { say } from "./status.js";
import { openTab, tabNames } from "./tabs.js";

const PLACE_KEYS = ["video", "upload", "run", "saved", "other", "speak", "update", "t", "tab", "beside"];
const TABS_OF_PAGE = { Batch: "batch", Reviews: "reviews" };
const NOTHING = '{"nothing"';
const isInFrame = window.parent !== window; // the address of the page around a frame cannot be written
let chosenPlace = null, placeWritten = 0;

// Takes what the server sends: the place of a video without a run, or a run.
export function receive(text) {
  const isNothing = Boolean(text?.startsWith(NOTHING));
  if (isNothing) chosenPlace = JSON.parse(text).place;
  ui.receiver.receive(isNothing ? "" : text);
  keepPlace(true);
}

function videoOf(place) { return place.upload ?? place.video ?? null; }

function addressedPlace() {
  const link = new URLSearchParams(location.search);
  return Object.fromEntries(PLACE_KEYS.filter((key) => link.has(key)).map((key) => [key, link.get(key)]));
}

function pageTab() {
  const shownTab = [...document.querySelectorAll("#rooms > .tab-wrapper [role=tab]")].find((button) => button.getAttribute("aria-selected") === "true");
  return TABS_OF_PAGE[shownTab?.textContent.trim()];
}

function placeNow() {
  const video = state.data ? state.data.place : chosenPlace;
  if (!video) return null;
  const before = addressedPlace();
  const place = state.data || videoOf(video) !== videoOf(before) ? { ...video } : before; // its run may be on its way
  if (state.data && ui.video.time >= 0.05) place.t = ui.video.time.toFixed(1);
  delete place.tab;
  delete place.beside;
  if (pageTab()) place.tab = pageTab();
  if (state.tab !== "rows") place.beside = state.tab;
  return place;
}

// Writes the place, at most once a second unless it must be now. Another video is a step that Back takes back.
export function keepPlace(isNow = false) {
  const now = performance.now();
  if (isInFrame || !isNow && now - placeWritten < 1000) return;
  placeWritten = now;
  const place = placeNow();
  if (!place) return;
  const before = addressedPlace(), address = new URL(location.href);
  for (const key of PLACE_KEYS) address.searchParams.delete(key);
  for (const key in place) address.searchParams.set(key, place[key]);
  if (address.href === location.href) return;
  const isAnother = videoOf(before) !== null && videoOf(place) !== videoOf(before);
  history[isAnother ? "pushState" : "replaceState"](null, "", address);
}

// Opens the tabs of the address, once, when the page has begun.
export function openAddressedTabs() {
  const place = addressedPlace();
  if (tabNames().includes(place.beside)) openTab(place.beside);
  const name = Object.keys(TABS_OF_PAGE).find((found) => TABS_OF_PAGE[found] === place.tab);
  const button = [...document.querySelectorAll("#rooms > .tab-wrapper [role=tab]")].find((found) => found.textContent.trim() === name);
  button?.click();
}

function linkedMoment() {
  const link = new URL(location.pathname, location.origin);
  const values = { ...state.data.link, run: state.data.run, t: ui.video.time.toFixed(2), ...state.data.thresholds };
  for (const key in values) link.searchParams.set(key, values[key]);
  return link.href;
}

export async function copyLink() {
  if (!state.data.link) return say("No link: it can lead only to uploads, and to bundled videos with the task that belongs to them.");
  const link = linkedMoment();
  try {
    await navigator.clipboard.writeText(link);
    say(state.data.link.upload ? "Link copied. It works as long as this server has the upload." : "Link copied.");
  } catch {
    say(`Copy this: ${link}`); // the browser forbids the clipboard
  }
}

export function openLinkedMoment() {
  const link = new URLSearchParams(location.search);
  const time = secondsOf(link.get("t") ?? "");
  if ((link.get("upload") ?? link.get("video")) === state.data.video_id && time > 0) { seek(time); reveal(time); }
}

export function mountAddress() {
  window.addEventListener("popstate", () => location.reload(), { signal: listeners.signal });
}
