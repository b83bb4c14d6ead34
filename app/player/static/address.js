// The page's address: a reload, Back and a restart of the server restore the video, run, time and tabs.

import { reveal } from "./timeline/chart.js";
import { parseTime } from "./state/data.js";
import { seek } from "./playback/playhead.js";
import { listeners, review, state, ui } from "./state/state.js";
import { setStatus } from "./dom/status.js";
import { openTab, tabNames } from "./panels/tabs.js";

const ADDRESS_KEYS = ["video", "upload", "run", "saved", "other", "speak", "update", "t", "event", "tab", "beside"];
const TABS_OF_PAGE = { Batch: "batch", Reviews: "reviews" };
const NO_RUN = '{"nothing"';
const isInFrame = window.parent !== window; // the address of an embedding page cannot be changed
const linkAtStart = location.search;
let chosenAddress = null, lastWriteMs = 0, linkedEvent = new URLSearchParams(linkAtStart).get("event");

// Receives from the server the address of a video without a run, or a run.
export function receive(text) {
  const isNothing = Boolean(text?.startsWith(NO_RUN));
  if (isNothing) chosenAddress = JSON.parse(text).place;
  ui.receiver.receive(isNothing ? "" : text);
  updateAddress(true);
}

function videoOf(place) { return place.upload ?? place.video ?? null; }

function readAddress() {
  const link = new URLSearchParams(location.search);
  return Object.fromEntries(ADDRESS_KEYS.filter((key) => link.has(key)).map((key) => [key, link.get(key)]));
}

function pageTab() {
  const shownTab = [...document.querySelectorAll("#rooms > .tab-wrapper [role=tab]")].find((button) => button.getAttribute("aria-selected") === "true");
  return TABS_OF_PAGE[shownTab?.textContent.trim()];
}

function currentAddress() {
  const video = state.data ? state.data.place : chosenAddress;
  if (!video) return null;
  const before = readAddress();
  const place = state.data || videoOf(video) !== videoOf(before) ? { ...video } : before; // its run may still be loading
  if (state.data && ui.video.time >= 0.05) place.t = ui.video.time.toFixed(1);
  delete place.event;
  const event = selectedEvent() ?? linkedEvent; // until its run is shown, the event of the link stays
  if (event) place.event = event;
  delete place.tab;
  delete place.beside;
  if (pageTab()) place.tab = pageTab();
  if (state.tab !== "rows") place.beside = state.tab;
  return place;
}

// Updates the page's address, at most once a second unless `isNow`. Back undoes a change of video.
export function updateAddress(isNow = false) {
  const now = performance.now();
  if (isInFrame || !isNow && now - lastWriteMs < 1000) return;
  lastWriteMs = now;
  const place = currentAddress();
  if (!place) return;
  const before = readAddress(), address = new URL(location.href);
  for (const key of ADDRESS_KEYS) address.searchParams.delete(key);
  for (const key in place) address.searchParams.set(key, place[key]);
  if (address.href === location.href) return;
  const isAnother = videoOf(before) !== null && videoOf(place) !== videoOf(before);
  history[isAnother ? "pushState" : "replaceState"](null, "", address);
}

// Opens the tabs of the address, once, when the page starts.
export function openTabsOfAddress() {
  const place = readAddress();
  if (tabNames().includes(place.beside)) openTab(place.beside);
  const name = Object.keys(TABS_OF_PAGE).find((found) => TABS_OF_PAGE[found] === place.tab);
  const button = [...document.querySelectorAll("#rooms > .tab-wrapper [role=tab]")].find((found) => found.textContent.trim() === name);
  button?.click();
}

function selectedEvent() { return state.data && state.selectedTime !== null ? review.current : null; }

function momentLink() {
  const link = new URL(location.pathname, location.origin);
  const values = { ...state.data.link, run: state.data.run, t: ui.video.time.toFixed(2), ...state.data.thresholds };
  if (selectedEvent()) values.event = selectedEvent();
  for (const key in values) link.searchParams.set(key, values[key]);
  return link.href;
}

export async function copyLink() {
  if (!state.data.link) return setStatus("No link: it can lead only to uploads, and to bundled videos with the task that belongs to them.");
  const link = momentLink();
  try {
    await navigator.clipboard.writeText(link);
    setStatus(state.data.link.upload ? "Link copied. It works as long as this server has the upload." : "Link copied.");
  } catch {
    setStatus(`Copy this: ${link}`); // the browser forbids the clipboard
  }
}

export function openLinkedMoment() {
  const link = new URLSearchParams(location.search);
  const time = parseTime(link.get("t") ?? "");
  if ((link.get("upload") ?? link.get("video")) === state.data.video_id && time > 0) { seek(time); reveal(time); }
}

// Returns the key of the linked event, once, when its video has events and the playhead is still at the linked moment.
export function takeLinkedEvent() {
  if (linkedEvent === null || !state.data.events.length) return null;
  const link = new URLSearchParams(linkAtStart), key = linkedEvent, time = parseTime(link.get("t") ?? "") || 0;
  linkedEvent = null;
  const isThere = (link.get("upload") ?? link.get("video")) === state.data.video_id && Math.abs(ui.video.time - time) < 1;
  return isThere && state.selectedTime === null ? key : null;
}

export function mountAddress() {
  window.addEventListener("popstate", () => location.reload(), { signal: listeners.signal });
}
