// The page's address: a reload, Back and a restart of the server restore the video, run, time and tabs.

import { reveal } from "./timeline/chart.js";
import { parseTime } from "./state/data.js";
import { DECISIONS } from "./state/signals.js";
import { runWords } from "./state/preview.js";
import { eventByKey } from "./review/opinions.js";
import { latestEvent } from "./playback/selection.js";
import { seek } from "./playback/playhead.js";
import { host, listeners, review, shown, state, ui } from "./state/state.js";
import { setStatus } from "./dom/status.js";
import { openTab, tabNames } from "./panels/tabs.js";

const RUN_KEYS = ["video", "upload", "split", "run", "saved", "other", "above", "speak", "update", "context"];
const TAB_KEYS = ["tab", "view", "shown", "against", "beside"];
const ADDRESS_KEYS = [...RUN_KEYS, "t", "event", "score", ...TAB_KEYS];
const TABS_OF_PAGE = { Live: "live", Chat: "chat", Batch: "batch", Reviews: "reviews" };
const PAGE_TABS = "#rooms > .tab-wrapper [role=tab]";
// the tabs of a tab
const VIEWS = { batch: "#batch_views > .tab-wrapper [role=tab]", reviews: "#review_views > .tab-wrapper [role=tab]" };
const NO_RUN = '{"nothing"';
const OPENING_MS = 3000; // within this time after a change of video, a change to the player's tab belongs to it
const SETTLING_MS = 1000; // Gradio may select the first view within this time after it has drawn a tab
const isInFrame = window.parent !== window; // the address of an embedding page cannot be changed
const linkAtStart = location.search;
let chosenAddress = null,
  lastWriteMs = 0,
  lastPushMs = -Infinity,
  linkedEvent = new URLSearchParams(linkAtStart).get("event");
let wantsScoring = new URLSearchParams(linkAtStart).get("score") === "corrected";
let wantedTab = null,
  wantedView = null,
  viewClickMs = -Infinity,
  isCompareShown = false,
  // the view of the address until it is open; whether a second run was shown; the run for which Back keeps the video of
  // the address
  keptFor;

// Receives from the server the address of a video without a run, or a run.
export function receive(text) {
  const isNothing = Boolean(text?.startsWith(NO_RUN));
  if (isNothing) chosenAddress = JSON.parse(text).place;
  ui.receiver.receive(isNothing ? "" : text);
  updateAddress(true);
}

function videoOf(place) {
  return place.upload ?? place.video ?? null;
}

function readAddress() {
  const link = new URLSearchParams(location.search);
  return Object.fromEntries(ADDRESS_KEYS.filter((key) => link.has(key)).map((key) => [key, link.get(key)]));
}

function tabNamed(tabs, name) {
  return [...document.querySelectorAll(tabs)].find((tab) => tab.textContent.trim() === name);
}
function selectedTab(tabs) {
  return [...document.querySelectorAll(tabs)]
    .find((tab) => tab.getAttribute("aria-selected") === "true")
    ?.textContent.trim();
}

function pageTab() {
  return TABS_OF_PAGE[selectedTab(PAGE_TABS)];
}
function inputValue(id) {
  return document.querySelector(`#${id} input`)?.value ?? "";
}

// The open tab of the page, its view unless it is the first, and the runs that the batch tab shows. Runs of the address
// that are not shown yet stay.
function tabPlace(before) {
  const tab = pageTab(),
    place = {};
  if (!tab) return place;
  const view = (tab === wantedTab ? wantedView : null) ?? selectedTab(VIEWS[tab]);
  place.tab = tab;
  if (view && view !== document.querySelector(VIEWS[tab])?.textContent.trim()) place.view = view;
  if (tab !== "batch") return place;
  const [shownRun, against] = [inputValue("batch_runs") || before.shown, inputValue("other")];
  isCompareShown ||= against !== "";
  if (shownRun) place.shown = shownRun;
  if (view === "Compare" && (isCompareShown ? against : before.against))
    place.against = isCompareShown ? against : before.against;
  return place;
}

// The video and its run; of a video without a run, the thresholds of the sliders if they are not those of the page.
function currentVideo() {
  if (state.data || !chosenAddress) return state.data?.place ?? chosenAddress;
  const place = { ...chosenAddress };
  for (const name of DECISIONS) {
    const value = document.querySelector(`#${name}_threshold input[type=number]`)?.value;
    if (value && (Number(value) !== host.settings.thresholds[name] || readAddress()[name])) place[name] = value;
  }
  return place;
}

function currentAddress() {
  const video = currentVideo();
  if (!video) return null;
  const before = readAddress();
  const isKept = !state.data && videoOf(video) === videoOf(before),
    isLoading = isKept && (before.run ?? before.saved) !== undefined;
  const place = isLoading ? before : { ...(isKept ? before : {}), ...video };
  if (state.data && ui.video.time >= 0.05) place.t = ui.video.time.toFixed(1);
  Object.assign(place, keptPreview());
  delete place.event;
  // until its run is shown, the event of the link stays
  const event = selectedEvent() ?? (isOfLink(place) ? linkedEvent : null);
  if (event) place.event = event;
  delete place.score;
  if (review.wantsCorrected) place.score = "corrected";
  for (const key of TAB_KEYS) delete place[key];
  Object.assign(place, tabPlace(readAddress()));
  if (state.tab !== "rows") place.beside = state.tab;
  if (!place.tab || keptFor === undefined || keptFor !== state.data) return place;
  for (const key of [...RUN_KEYS, "t", "event"]) {
    delete place[key];
    if (key in before) place[key] = before[key];
  }
  return place;
}

// The thresholds of a preview, which a page without a model keeps.
function keptPreview() {
  return state.data && shown.isPreview && !host.settings.can_run ? shown.thresholds : {};
}

function isOfLink(place) {
  const link = new URLSearchParams(linkAtStart);
  return (link.get("upload") ?? link.get("video")) === videoOf(place);
}

// Updates the page's address, at most once a second during playback unless `isNow`. Back undoes a change of video or of
// the page's tab.
export function updateAddress(isNow = false) {
  if (host.settings.hint) return; // the address is that of the page's first player
  const now = performance.now();
  openWantedView(now);
  if (isInFrame || (!isNow && !ui.video.isPaused && now - lastWriteMs < 1000)) return;
  lastWriteMs = now;
  const place = currentAddress();
  if (!place) return;
  const before = readAddress(),
    address = new URL(location.href);
  for (const key of ADDRESS_KEYS) address.searchParams.delete(key);
  for (const key in place) address.searchParams.set(key, place[key]);
  if (address.href === location.href) return;
  const isOpening = !place.tab && now - lastPushMs < OPENING_MS;
  const isOtherVideo = videoOf(before) !== null && videoOf(place) !== videoOf(before);
  const isOtherTab = (videoOf(before) !== null || before.tab) && place.tab !== before.tab && !isOpening;
  const isAnother = isOtherVideo || isOtherTab;
  if (isOtherVideo) lastPushMs = now;
  history[isAnother ? "pushState" : "replaceState"](null, "", address);
}

// Opens the tabs of the address, when the page starts and after Back.
export function openTabsOfAddress() {
  const place = readAddress();
  if (tabNames().includes(place.beside ?? "rows")) openTab(place.beside ?? "rows");
  [wantedTab, wantedView] = VIEWS[place.tab] ? [place.tab, place.view ?? null] : [null, null];
  tabNamed(PAGE_TABS, Object.keys(TABS_OF_PAGE).find((name) => TABS_OF_PAGE[name] === place.tab) ?? "Player")?.click();
}

// Opens the view of the address as soon as Gradio has drawn its tab, and again if Gradio then selects the first one.
function openWantedView(now) {
  const tabs = VIEWS[wantedTab];
  if (wantedView === null || pageTab() !== wantedTab || !document.querySelector(tabs)) return;
  const found = tabNamed(tabs, wantedView);
  if (found && selectedTab(tabs) !== wantedView) {
    found.click();
    viewClickMs = now;
  } else if (!found || now - viewClickMs > SETTLING_MS) wantedView = null;
}

// Shows the place of the address after Back or Forward: another video or run needs a new page; a tab does not, and
// keeps its inputs.
function onPopState() {
  const place = readAddress(),
    now = currentVideo() ?? {};
  const isSameRun = RUN_KEYS.every((key) => (place[key] ?? null) === (now[key] ?? null));
  const isSameBatch =
    place.tab !== "batch" ||
    (inputValue("batch_runs") === (place.shown ?? "") && (!place.against || inputValue("other") === place.against));
  keptFor = isSameRun ? undefined : state.data;
  if (isSameBatch && (isSameRun || place.tab)) openTabsOfAddress();
  else location.reload();
}

// The event that keys judge, unless it is the one that follows from the time alone.
function selectedEvent() {
  if (!state.data) return null;
  return state.selectedTime !== null || review.current !== (latestEvent(ui.video.time)?.key ?? null)
    ? review.current
    : null;
}

function momentLink() {
  const link = new URL(location.pathname, location.origin);
  const values = {
    ...state.data.link,
    run: state.data.run,
    t: ui.video.time.toFixed(2),
    ...state.data.thresholds,
    ...keptPreview(),
  };
  if (selectedEvent()) values.event = selectedEvent();
  if (review.wantsCorrected) values.score = "corrected";
  for (const key in values) link.searchParams.set(key, values[key]);
  return link.href;
}

export async function copyLink() {
  if (!state.data.link)
    return setStatus(
      "No link: it can lead only to uploads, saved runs, and videos of a split with the task that belongs to them.",
    );
  const link = momentLink();
  try {
    await navigator.clipboard.writeText(link);
    const kept = ["upload", "saved", "other", "split"].find((name) => state.data.link[name]);
    const run = host.settings.can_run ? runWords(state.data) : "";
    setStatus(
      `Link copied${run ? `, to the ${run}: the preview is no run yet` : ""}.` +
        (kept ? ` It works as long as this server has the ${["saved", "other"].includes(kept) ? "run" : kept}.` : ""),
    );
  } catch {
    setStatus(`Copy this: ${link}`); // the browser forbids the clipboard
  }
}

export function openLinkedMoment() {
  const link = new URLSearchParams(location.search);
  const time = parseTime(link.get("t") ?? "");
  if ((link.get("upload") ?? link.get("video")) === state.data.video_id && time > 0) {
    ui.video.arriveAt(seek(time)); // the page may have no video element yet
    reveal(time);
  }
}

// Whether the page was opened by a link to a video, a run or a tab.
export function isLinkAtStart() {
  return ADDRESS_KEYS.some((key) => new URLSearchParams(linkAtStart).has(key));
}

// Returns the linked event and its moment, once, when its video has events and the playhead is still at that moment.
export function takeLinkedEvent() {
  if (linkedEvent === null || !state.data.events.length) return null;
  const link = new URLSearchParams(linkAtStart),
    event = eventByKey(linkedEvent),
    time = parseTime(link.get("t") ?? "") || 0;
  linkedEvent = null;
  const isThere =
    (link.get("upload") ?? link.get("video")) === state.data.video_id && Math.abs(ui.video.time - time) < 1;
  return isThere && state.selectedTime === null && event ? { event, time } : null;
}

// Returns once whether the link of the page scores the run by the corrected reference.
export function takeLinkedScoring() {
  const link = new URLSearchParams(linkAtStart),
    isWanted = wantsScoring;
  wantsScoring = false;
  return isWanted && (link.get("upload") ?? link.get("video")) === state.data.video_id;
}

export function mountAddress() {
  window.addEventListener("popstate", onPopState, { signal: listeners.signal });
}
