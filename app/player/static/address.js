// The page's address: a reload, Back and a restart of the server restore the video, run, time and tabs.

import { reveal } from "./timeline/chart.js";
import { batch } from "./state/batch.js";
import { clockText, parseTime } from "./state/data.js";
import { DECISIONS } from "./state/signals.js";
import { stopText } from "./state/stops.js";
import { runWords } from "./state/thresholds.js";
import { eventByKey } from "./events/opinions.js";
import { goToLinked, selectedEvent } from "./playback/selection.js";
import { seek } from "./clock/playhead.js";
import { setStatus, showTurns } from "./dom/dom.js";
import { openTab, tabNames } from "./panels/tabs.js";

const RUN_KEYS = ["video", "upload", "split", "run", "saved", "other", "above", "speak", "update", "context", "branch"];
const TAB_KEYS = ["tab", "view", "shown", "against", "search", "table", "beside"];
const ADDRESS_KEYS = [...RUN_KEYS, "t", "event", "score", ...TAB_KEYS];
const VIEWS = { batch: "batch_views", reviews: "review_views" }; // the tabs of a tab, by their element id
const NO_RUN = '{"nothing"';
const isInFrame = window.parent !== window; // the address of an embedding page cannot be changed

// Receives from the server the address of a video without a run, or a run.
export function receive(player, text) {
  const isNothing = Boolean(text?.startsWith(NO_RUN));
  const nothing = isNothing ? JSON.parse(text) : null;
  player.address.nothing = nothing;
  if (nothing) player.address.chosen = nothing.place;
  player.receiver.receive(isNothing ? "" : text);
  awaitPlayer(player);
  restore(player);
  updateAddress(player, true);
}

// Goes to the moment of the address to which Back leads, once its run is there.
function restore(player) {
  const { restored } = player.address;
  if (!restored || !player.data || isRestoring(player)) return;
  player.address.restored = null;
  goToPlace(player, restored.place);
}

// What the page opens, until the server has sent it; then an empty text.
export function nameOpening(player) {
  player.address.isOpen ||= Boolean(player.props.value);
  return player.address.isOpen ? "" : `Opening ${showTurns(readAddress().video ?? "a recorded run")}...`;
}

function videoOf(place) {
  return place.upload ?? place.video ?? null;
}

function runOf({ run, saved, branch }) {
  return [run ?? saved, branch].join(" ");
}

function readAddress() {
  const link = new URLSearchParams(location.search);
  return Object.fromEntries(ADDRESS_KEYS.filter((key) => link.has(key)).map((key) => [key, link.get(key)]));
}

// The id of the open one of the tabs with an element id, whose panels have the id "tab_ID"; null before it is drawn.
// A button may be in the menu of a narrow page.
export function openTabOf(tabs) {
  const panels = [...document.querySelectorAll(`#${tabs} > [role=tabpanel]`)];
  return panels.find(({ style }) => style.display !== "none")?.id.slice("tab_".length) ?? null;
}
// The place of the page's tab: nothing for the player's, and the view of a tab unless it is the first.
function openPlace() {
  const tab = openTabOf("rooms"),
    view = VIEWS[tab] ? openTabOf(VIEWS[tab]) : null;
  if (tab === null || tab === "player") return {};
  return { tab, ...(view !== null && view !== FIRST_VIEWS[tab] && { view }) };
}
const FIRST_VIEWS = { batch: "Scores", reviews: "Progress" };
const OLD_VIEWS = ["Videos", "Search"]; // of links: both are in the middle, beside every view
const inputValue = (id) => document.querySelector(`#${id} :is(input, textarea)`)?.value ?? "";

// The tab of the page, its view unless it is the first, and the runs that the batch tab shows. The server opens tabs:
// until the awaited one is drawn, the place is that. Runs of the address that are not shown yet stay.
function tabPlace({ address }, before) {
  const open = openPlace(),
    isAwaited = address.awaited?.tab === open.tab && address.awaited?.view === open.view;
  if (isAwaited && address.isAnswered) address.awaited = null;
  const place = { ...(address.awaited ?? open) },
    { tab } = place;
  if (tab !== "batch") return place;
  if (address.awaitedRun === batch.run) address.awaitedRun = null;
  if (address.awaitedRun) return { ...before, ...place }; // after Back
  const shown = batch.run || before.shown,
    other = batch.other;
  address.isCompareShown ||= other !== "";
  if (shown) place.shown = shown;
  const query = inputValue("search") || (shown === before.shown && !address.isCompareShown && before.search),
    against = address.isCompareShown ? other : before.against;
  if (query && query.length <= 500) place.search = query; // the server refuses longer ones
  if (against) place.against = against;
  if (place.view === "Split") place.table = inputValue("split") || before.table;
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
  const place = isLoading ? before : { ...(isKept && before), ...video };
  if (player.data && player.video.time >= 0.05) place.t = player.video.time.toFixed(1);
  Object.assign(place, keptPreview(player));
  // until its run is shown, the event of the link stays
  const isOfLink = videoOf(player.address.linkAtStart) === videoOf(place),
    event = selectedEvent(player) ?? (isOfLink ? player.address.linkedEvent : null);
  for (const key of ["event", "score", ...TAB_KEYS]) delete place[key];
  if (event) place.event = event;
  if (player.review.wantsCorrected) place.score = "corrected";
  Object.assign(place, tabPlace(player, readAddress()));
  if (player.tab !== "rows") place.beside = player.tab;
  if (!isRestoring(player)) return place;
  for (const key of [...RUN_KEYS, "t", "event"]) {
    delete place[key];
    if (key in before) place[key] = before[key];
  }
  return place;
}

// What is shown, also while it streams on; two folders can have equal runs.
const shownRun = ({ data }) => data && [data.run, data.run_name, data.other?.run_name].join(" ");
const isRestoring = (player) => player.address.restored?.run === shownRun(player);

// The thresholds of a preview, which a page without a model keeps.
function keptPreview(player) {
  return player.data && player.shown.isPreview && !player.settings.can_run ? player.shown.thresholds : {};
}

// Updates the page's address, at most once a second during playback unless `isNow`. Back undoes a change of video, of
// the page's tab, of the run in Batch or of one that was shown whole, and the choice of a moment.
export function updateAddress(player, isNow = false) {
  if (player.settings.hint || player.address.isLeaving || player.approach) return; // of another player or page
  const now = performance.now(),
    { address } = player;
  if (isInFrame || (!isNow && !player.video.isPaused && now - address.lastWriteMs < 1000)) return;
  address.lastWriteMs = now;
  const place = currentAddress(player);
  if (!place) return;
  const before = readAddress(),
    url = new URL(location.href);
  for (const key of ADDRESS_KEYS) url.searchParams.delete(key);
  for (const key in place) url.searchParams.set(key, place[key]);
  const whole = address.wholeRun;
  if (player.data && !player.receiver.run) address.wholeRun = runOf(place); // one that streams is none yet
  const isChoice = address.isStep; // of a moment
  address.isStep = false;
  if (url.href === location.href) return;
  const hadVideo = videoOf(before) !== null,
    isOtherVideo = hadVideo && videoOf(place) !== videoOf(before),
    isOtherRun = runOf(before) === whole && runOf(place) !== whole,
    isOtherTab = (hadVideo || before.tab) && place.tab !== before.tab,
    isOtherShown = before.shown && place.shown && place.shown !== before.shown;
  const isStep = isOtherVideo || isOtherRun || isOtherTab || isOtherShown || isChoice;
  const state = isRestoring(player) ? history.state : { isKept: Boolean(player.data?.kept_run) };
  history[isStep ? "pushState" : "replaceState"](state, "", url);
}

// Shows the tabs of the address: the server opens those of the page when it starts, and after Back.
export function awaitTabsOfAddress(player) {
  const { beside = "rows", tab, view } = readAddress();
  if (tabNames(player).includes(beside)) openTab(player, beside);
  player.address.awaited = tab ? { tab, ...(view && !OLD_VIEWS.includes(view) && { view }) } : {};
}

// A moment that was opened from another tab is shown in the player's, which the server opens with it.
function awaitPlayer({ address, data }) {
  if (!address.restored && address.isAnswered && data && data.landing.time !== null) address.awaited = {};
  address.isAnswered = address.isOpen;
}

// Shows the place of the address after Back or Forward, in tabs that keep their inputs. A run that has to be made again
// needs a new page.
function onPopState(player, state) {
  const place = readAddress(),
    now = currentVideo(player) ?? {};
  const isSameRun = RUN_KEYS.every((key) => (place[key] ?? null) === (now[key] ?? null));
  const isSameBatch =
    place.tab !== "batch" || (batch.run === (place.shown ?? "") && (!place.against || batch.other === place.against));
  if (!isSameBatch && isSameRun && place.shown) {
    awaitTabsOfAddress(player);
    player.address.awaitedRun = place.shown;
    player.trigger("open_tabs", { tab: "batch", view: place.view ?? FIRST_VIEWS.batch });
    return player.trigger("show_run", { a: place.shown, b: place.against ?? "" });
  }
  const isShown = isSameBatch && (isSameRun || (state?.isKept && !place.score));
  player.address.restored = isShown && !isSameRun ? { place, run: shownRun(player) } : null;
  if (isShown) {
    awaitTabsOfAddress(player);
    if (place.tab === "batch" && openTabOf("rooms") !== "batch") player.address.runOfBack = place.shown;
    if (!isSameRun) player.trigger("open_focus", { link: place });
    else if (player.data) goToPlace(player, place);
    return player.trigger("open_tabs", {
      tab: place.tab ?? "player",
      view: place.view ?? FIRST_VIEWS[place.tab] ?? null,
    });
  }
  // a page with a live session asks; if the user stays, updateAddress restores its address
  player.address.isLeaving = !document.querySelector("[data-session]");
  location.reload();
}

function goToPlace(player, { event: key, t }) {
  const event = key && eventByKey(player, key),
    time = parseTime(t ?? "") || 0;
  if (event) goToLinked(player, { event, time });
  else seek(player, time);
  const stop = event && player.data.stops[player.stopIndex ?? -1];
  setStatus(player, stop ? stopText(player, stop) : "", true);
}

function momentLink(player) {
  const link = new URL(location.pathname, location.origin),
    event = selectedEvent(player),
    t = player.video.time.toFixed(2);
  const { link: place, run, thresholds, branch } = player.data,
    values = { ...(branch ? {} : { run, ...thresholds }), ...place, t, ...keptPreview(player) };
  if (event) values.event = event;
  if (player.review.wantsCorrected) values.score = "corrected";
  for (const key in values) link.searchParams.set(key, values[key]);
  return link.href;
}

export async function copyLink(player) {
  const refusal =
    "No link: it can lead only to uploads, saved runs, and videos of a split with the task that belongs to them, " +
    "and to branches of these with at most 1,500 characters of changes.";
  if (!player.data.link) return setStatus(player, refusal);
  const link = momentLink(player);
  try {
    await navigator.clipboard.writeText(link);
  } catch {
    return setStatus(player, `Copy this: ${link}`); // the browser forbids the clipboard
  }
  const kept = ["upload", "saved", "other", "split"].find((name) => player.data.link[name]),
    run = player.settings.can_run && runWords(player, player.data);
  const words = [
    `Link copied${run ? `, to the ${run}: the preview is no run yet` : ""}.`,
    kept && `It works as long as this server has the ${["saved", "other"].includes(kept) ? "run" : kept}.`,
  ];
  setStatus(player, words.filter(Boolean).join(" "));
}

export function openLinkedMoment(player) {
  const link = readAddress(),
    time = parseTime(link.t ?? "");
  if (videoOf(link) === player.data.video_id && time > 0) openAt(player, time);
}

// Goes to the time of a link, or to one that the server names; to the end of the video if it ends before.
export function openAt(player, time) {
  const within = seek(player, time);
  player.video.arriveAt(within); // the page may have no video element yet
  reveal(player, within);
  const end = clockText(player.data.duration_s);
  if (time - within > 0.5) setStatus(player, `${clockText(time)} is after the end of the video: ${end} is shown.`);
}

export function isLinkAtStart(player) {
  return ADDRESS_KEYS.some((key) => key in player.address.linkAtStart);
}

// Returns the linked event and its moment, once, when its video has events and the playhead is still at that moment.
export function takeLinkedEvent(player) {
  const { linkAtStart: link, linkedEvent } = player.address;
  if (linkedEvent === null || !player.data.events.length) return null;
  const event = eventByKey(player, linkedEvent),
    time = parseTime(link.t ?? "") || 0;
  player.address.linkedEvent = null;
  const isThere = videoOf(link) === player.data.video_id && Math.abs(player.video.time - time) < 1;
  if (isThere && !event) setStatus(player, "The event of the link is not one of this run.");
  return isThere && player.selectedTime === null && event ? { event, time } : null;
}

// Returns once whether the link of the page scores the run by the corrected reference.
export function takeLinkedScoring(player) {
  const { linkAtStart, wantsScoring } = player.address;
  player.address.wantsScoring = false;
  return wantsScoring && videoOf(linkAtStart) === player.data.video_id;
}

export function mountAddress(player) {
  player.listen(window, "popstate", ({ state }) => onPopState(player, state));
  const leave = ({ target }) => {
    if (target.closest?.("[role=tab], .overflow-dropdown button")) player.address.awaited = null;
  };
  player.listen(document, "click", leave, { capture: true });
}
