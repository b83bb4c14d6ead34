// The page's address: a reload, Back and a restart of the server restore the video, run, time and tabs.

import { reveal } from "./timeline/chart.js";
import { parseTime } from "./state/data.js";
import { DECISIONS } from "./state/signals.js";
import { runWords } from "./state/preview.js";
import { eventByKey } from "./review/opinions.js";
import { selectedEvent } from "./playback/selection.js";
import { seek } from "./playback/playhead.js";
import { setStatus } from "./dom/status.js";
import { openTab, tabNames } from "./panels/tabs.js";

const RUN_KEYS = ["video", "upload", "split", "run", "saved", "other", "above", "speak", "update", "context"];
const TAB_KEYS = ["tab", "view", "shown", "against", "search", "beside"];
const ADDRESS_KEYS = [...RUN_KEYS, "t", "event", "score", ...TAB_KEYS];
const TABS_OF_PAGE = { Live: "live", Chat: "chat", Batch: "batch", Reviews: "reviews" };
const PAGE_TABS = "#rooms > .tab-wrapper [role=tab]";
// the tabs of a tab
const VIEWS = { batch: "#batch_views > .tab-wrapper [role=tab]", reviews: "#review_views > .tab-wrapper [role=tab]" };
const NO_RUN = '{"nothing"';
const OPENING_MS = 3000; // within this time after a change of video, a change to the player's tab belongs to it
const SETTLING_MS = 1000; // Gradio may select the first view within this time after it has drawn a tab
const isInFrame = window.parent !== window; // the address of an embedding page cannot be changed

// Receives from the server the address of a video without a run, or a run.
export function receive(player, text) {
  const isNothing = Boolean(text?.startsWith(NO_RUN));
  if (isNothing) player.address.chosen = JSON.parse(text).place;
  player.receiver.receive(isNothing ? "" : text);
  updateAddress(player, true);
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
function tabPlace(player, before) {
  const tab = pageTab(),
    place = {};
  if (!tab) return place;
  const view = (tab === player.address.wantedTab ? player.address.wantedView : null) ?? selectedTab(VIEWS[tab]);
  place.tab = tab;
  if (view && view !== document.querySelector(VIEWS[tab])?.textContent.trim()) place.view = view;
  if (tab !== "batch") return place;
  const [shownRun, against] = [inputValue("batch_runs") || before.shown, inputValue("other")];
  player.address.isCompareShown ||= against !== "";
  if (shownRun) place.shown = shownRun;
  if (view === "Search") {
    const query = document.querySelector("#search textarea, #search input")?.value;
    if (query ?? before.search) place.search = query || before.search;
  }
  if (view === "Compare" && (player.address.isCompareShown ? against : before.against))
    place.against = player.address.isCompareShown ? against : before.against;
  return place;
}

// The video and its run; of a video without a run, the thresholds of the sliders if they are not those of the page.
function currentVideo(player) {
  if (player.data || !player.address.chosen) return player.data?.place ?? player.address.chosen;
  const place = { ...player.address.chosen };
  for (const name of DECISIONS) {
    const value = document.querySelector(`#${name}_threshold input[type=number]`)?.value;
    if (value && (Number(value) !== player.settings.thresholds[name] || readAddress()[name])) place[name] = value;
  }
  return place;
}

function currentAddress(player) {
  const video = currentVideo(player);
  if (!video) return null;
  const before = readAddress();
  const isKept = !player.data && videoOf(video) === videoOf(before),
    isLoading = isKept && (before.run ?? before.saved) !== undefined;
  const place = isLoading ? before : { ...(isKept ? before : {}), ...video };
  if (player.data && player.video.time >= 0.05) place.t = player.video.time.toFixed(1);
  Object.assign(place, keptPreview(player));
  delete place.event;
  // until its run is shown, the event of the link stays
  const event = selectedEvent(player) ?? (isOfLink(player, place) ? player.address.linkedEvent : null);
  if (event) place.event = event;
  delete place.score;
  if (player.review.wantsCorrected) place.score = "corrected";
  for (const key of TAB_KEYS) delete place[key];
  Object.assign(place, tabPlace(player, readAddress()));
  if (player.tab !== "rows") place.beside = player.tab;
  if (!place.tab || player.address.keptFor === undefined || player.address.keptFor !== player.data) return place;
  for (const key of [...RUN_KEYS, "t", "event"]) {
    delete place[key];
    if (key in before) place[key] = before[key];
  }
  return place;
}

// The thresholds of a preview, which a page without a model keeps.
function keptPreview(player) {
  return player.data && player.shown.isPreview && !player.settings.can_run ? player.shown.thresholds : {};
}

function isOfLink(player, place) {
  const link = player.address.linkAtStart;
  return (link.get("upload") ?? link.get("video")) === videoOf(place);
}

// Updates the page's address, at most once a second during playback unless `isNow`. Back undoes a change of video or of
// the page's tab.
export function updateAddress(player, isNow = false) {
  if (player.settings.hint) return; // the address is that of the page's first player
  const now = performance.now();
  openWantedView(player, now);
  if (isInFrame || (!isNow && !player.video.isPaused && now - player.address.lastWriteMs < 1000)) return;
  player.address.lastWriteMs = now;
  const place = currentAddress(player);
  if (!place) return;
  const before = readAddress(),
    address = new URL(location.href);
  for (const key of ADDRESS_KEYS) address.searchParams.delete(key);
  for (const key in place) address.searchParams.set(key, place[key]);
  if (address.href === location.href) return;
  const isOpening = !place.tab && now - player.address.lastPushMs < OPENING_MS;
  const isOtherVideo = videoOf(before) !== null && videoOf(place) !== videoOf(before);
  const isOtherTab = (videoOf(before) !== null || before.tab) && place.tab !== before.tab && !isOpening;
  const isAnother = isOtherVideo || isOtherTab;
  if (isOtherVideo) player.address.lastPushMs = now;
  history[isAnother ? "pushState" : "replaceState"](null, "", address);
}

// Opens the tabs of the address, when the page starts and after Back.
export function openTabsOfAddress(player) {
  const place = readAddress();
  if (tabNames(player).includes(place.beside ?? "rows")) openTab(player, place.beside ?? "rows");
  [player.address.wantedTab, player.address.wantedView] = VIEWS[place.tab]
    ? [place.tab, place.view ?? null]
    : [null, null];
  tabNamed(PAGE_TABS, Object.keys(TABS_OF_PAGE).find((name) => TABS_OF_PAGE[name] === place.tab) ?? "Player")?.click();
}

// Opens the view of the address as soon as Gradio has drawn its tab, and again if Gradio then selects the first one.
function openWantedView(player, now) {
  const tabs = VIEWS[player.address.wantedTab];
  if (player.address.wantedView === null || pageTab() !== player.address.wantedTab || !document.querySelector(tabs))
    return;
  const found = tabNamed(tabs, player.address.wantedView);
  if (found && selectedTab(tabs) !== player.address.wantedView) {
    found.click();
    player.address.viewClickMs = now;
  } else if (!found || now - player.address.viewClickMs > SETTLING_MS) player.address.wantedView = null;
}

// Shows the place of the address after Back or Forward: another video or run needs a new page; a tab does not, and
// keeps its inputs.
function onPopState(player) {
  const place = readAddress(),
    now = currentVideo(player) ?? {};
  const isSameRun = RUN_KEYS.every((key) => (place[key] ?? null) === (now[key] ?? null));
  const isSameBatch =
    place.tab !== "batch" ||
    (inputValue("batch_runs") === (place.shown ?? "") && (!place.against || inputValue("other") === place.against));
  const isShown = isSameBatch && (isSameRun || place.tab);
  player.address.keptFor = isSameRun || !isShown ? undefined : player.data;
  if (isShown) openTabsOfAddress(player);
  else location.reload(); // a page with a live session asks; if the user stays, updateAddress restores its address
}

function momentLink(player) {
  const link = new URL(location.pathname, location.origin);
  const values = {
    ...player.data.link,
    run: player.data.run,
    t: player.video.time.toFixed(2),
    ...player.data.thresholds,
    ...keptPreview(player),
  };
  if (selectedEvent(player)) values.event = selectedEvent(player);
  if (player.review.wantsCorrected) values.score = "corrected";
  for (const key in values) link.searchParams.set(key, values[key]);
  return link.href;
}

export async function copyLink(player) {
  if (!player.data.link)
    return setStatus(
      player,
      "No link: it can lead only to uploads, saved runs, and videos of a split with the task that belongs to them.",
    );
  const link = momentLink(player);
  try {
    await navigator.clipboard.writeText(link);
    const kept = ["upload", "saved", "other", "split"].find((name) => player.data.link[name]);
    const run = player.settings.can_run ? runWords(player, player.data) : "";
    setStatus(
      player,
      `Link copied${run ? `, to the ${run}: the preview is no run yet` : ""}.` +
        (kept ? ` It works as long as this server has the ${["saved", "other"].includes(kept) ? "run" : kept}.` : ""),
    );
  } catch {
    setStatus(player, `Copy this: ${link}`); // the browser forbids the clipboard
  }
}

export function openLinkedMoment(player) {
  const link = new URLSearchParams(location.search);
  const time = parseTime(link.get("t") ?? "");
  if ((link.get("upload") ?? link.get("video")) === player.data.video_id && time > 0) {
    player.video.arriveAt(seek(player, time)); // the page may have no video element yet
    reveal(player, time);
  }
}

// Whether the page was opened by a link to a video, a run or a tab.
export function isLinkAtStart(player) {
  return ADDRESS_KEYS.some((key) => player.address.linkAtStart.has(key));
}

// Returns the linked event and its moment, once, when its video has events and the playhead is still at that moment.
export function takeLinkedEvent(player) {
  if (player.address.linkedEvent === null || !player.data.events.length) return null;
  const link = player.address.linkAtStart,
    event = eventByKey(player, player.address.linkedEvent),
    time = parseTime(link.get("t") ?? "") || 0;
  player.address.linkedEvent = null;
  const isThere =
    (link.get("upload") ?? link.get("video")) === player.data.video_id && Math.abs(player.video.time - time) < 1;
  return isThere && player.selectedTime === null && event ? { event, time } : null;
}

// Returns once whether the link of the page scores the run by the corrected reference.
export function takeLinkedScoring(player) {
  const link = player.address.linkAtStart,
    isWanted = player.address.wantsScoring;
  player.address.wantsScoring = false;
  return isWanted && (link.get("upload") ?? link.get("video")) === player.data.video_id;
}

export function mountAddress(player) {
  window.addEventListener("popstate", () => onPopState(player), { signal: player.listeners.signal });
}
