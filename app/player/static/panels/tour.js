// A tour of the page in five stops: a small popover beside each part, under which the page works as usual.

import { createButton, createNode } from "../dom/dom.js";
import { readSetting, writeSetting } from "../state/settings.js";

const GAP_PX = 12,
  EDGE_PX = 8; // between the popover and its part, and the window's edge
const IS_TOUCH = matchMedia("(pointer: coarse)").matches,
  CLICK = IS_TOUCH ? "tap" : "click";
const SETTING = "tour",
  SEEN = "seen";
const STOPS = [
  [
    "What the assistant is for",
    "A model watches somebody at a task, and should say when a step is done or goes wrong. The sentence at the video " +
      "says what it did wrong at this moment, and what it should have said.",
    (player) =>
      [...document.querySelectorAll(`#${player.settings.video_id}`), player.find("now"), player.find("said")].map(
        boxOf,
      ),
  ],
  [
    "Lanes",
    "What it should have said, above what it said, and the steps over time. Hatching shows wrong steps. " +
      `A ${CLICK} goes there.`,
    (player) => boxesOfRows(player, (row, index, rows) => rows.slice(0, index + 1).every(isAboveSignals)),
  ],
  [
    "Signals and thresholds",
    "How probable speaking and an update of the steps were, frame by frame. Drag a dashed threshold to preview other " +
      "decisions; on release they are run exactly.",
    (player) => boxesOfRows(player, ({ kind }) => kind === "trace"),
  ],
  [
    "Mistakes",
    `${IS_TOUCH ? "The buttons go" : "N and P go"} to the next mistake and back. The ` +
      "button # shows signs and numbers, and kinds of failures to stop at.",
    (player) => [boxOf(player.find("next"))],
  ],
  [
    "Batch and Reviews",
    "Batch runs whole splits, tunes thresholds and compares runs. Reviews collects verdicts of several " +
      `people. The ${IS_TOUCH ? "button" : "key"} ? lists all signs and keys, and starts this tour again.`,
    () => [...document.querySelectorAll("#rooms > .tab-wrapper [role=tab]:not([aria-selected=true])")].map(boxOf),
  ],
];

function isAboveSignals({ kind }) {
  return kind !== "trace" && kind !== "axis";
}

function boxOf(element) {
  return element.getBoundingClientRect();
}

// The box of the rows of the timeline that match; of the whole timeline if none does.
function boxesOfRows(player, matches) {
  const { left, right, top } = boxOf(player.canvas),
    rows = player.timeline.rows.filter(matches);
  if (!rows.length) return [boxOf(player.find("lanes"))];
  return [{ left, right, top: top + rows[0].top, bottom: top + rows.at(-1).top + rows.at(-1).height }];
}

// Starts the tour if this browser has not shown it yet; never where the browser would forget that it has, never after a
// key or a click, which mean that the user opened the failure, and only on the page of the program, which it describes.
export function offerTour(player) {
  if (player.isInUse || !player.settings.can_run || readSetting(SETTING) === SEEN) return;
  writeSetting(SETTING, SEEN);
  if (readSetting(SETTING) === SEEN) startTour(player);
}

export function startTour(player) {
  closeTour(player);
  const move = (by) => () => goTo(player, player.tour.number + by);
  const close = { title: "Close the tour (Esc)", ariaLabel: "Close the tour" };
  const parts = {
    title: createNode("h3", "", "", { id: "ss-tour-title" }),
    text: createNode("p", "", "", { id: "ss-tour-text" }),
    place: createNode("span", "ss-dim"),
    back: createButton("", "back", move(-1)),
    next: createButton("", "next", move(1)),
    rings: createNode("div", "ss-tour-rings"),
  };
  const { title, text, place, back, next, rings } = parts;
  const box = createNode(
    "div",
    "ss-tour",
    [
      title,
      createButton("ss-tour-close", "×", () => closeTour(player), close),
      text,
      createNode("p", "ss-line", [place, back, next]),
    ],
    { role: "dialog", tabIndex: -1, onkeydown: (event) => onKey(player, event) },
  );
  box.setAttribute("aria-labelledby", title.id);
  box.setAttribute("aria-describedby", text.id);
  const stops = STOPS.filter(([, , boxes]) => boxes(player).length); // a published player has one tab
  player.tour = { ...parts, box, stops, number: 0, before: document.activeElement };
  player.root.append(rings, box);
  goTo(player, 0);
  // text that is being typed stays there
  if (!player.tour.before?.matches("input, textarea, select")) box.focus({ preventScroll: true });
}

function closeTour(player) {
  if (!player.tour) return;
  const { box, rings, before } = player.tour,
    hadFocus = box.contains(document.activeElement);
  player.tour = null;
  box.remove();
  rings.remove();
  if (hadFocus)
    (before?.isConnected && before !== document.body ? before : player.canvas).focus({ preventScroll: true });
}

function onKey(player, event) {
  const isEnter = event.key === "Enter" && event.target === event.currentTarget, // not on one of the buttons
    by = isEnter ? 1 : { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation(); // else the player would step a frame
  if (isEnter || player.tour.stops[player.tour.number + by]) goTo(player, player.tour.number + by);
}

function goTo(player, number) {
  const { stops, title, text, place, back, next } = player.tour;
  if (number === stops.length) return closeTour(player);
  [title.textContent, text.textContent] = stops[number];
  player.tour.number = number;
  place.textContent = `${number + 1} of ${stops.length}`;
  back.disabled = number === 0;
  next.textContent = number === stops.length - 1 ? "done" : "next";
  scrollToStop(player);
  position(player);
}

function boxesOfStop(player) {
  const { stops, number } = player.tour;
  return stops[number][2](player).filter(({ left, right }) => right > left); // a panel may be folded away
}

function boxAround(boxes) {
  const [left, top] = ["left", "top"].map((side) => Math.min(...boxes.map((box) => box[side])));
  const [right, bottom] = ["right", "bottom"].map((side) => Math.max(...boxes.map((box) => box[side])));
  return { left, top, right, bottom };
}

function drawRing({ left, top, right, bottom }) {
  const style = `left: ${left - 3}px; top: ${top - 3}px; width: ${right - left + 6}px; height: ${bottom - top + 6}px`;
  return createNode("div", "ss-tour-ring", "", { style });
}

// Scrolls such that the parts of the stop are in the window.
function scrollToStop(player) {
  const { top, bottom } = boxAround(boxesOfStop(player));
  if (bottom > innerHeight || top < 0) scrollBy({ top: Math.min(top - EDGE_PX, bottom + EDGE_PX - innerHeight) });
}

// Places the popover beside tall parts of the stop; below others, above them, or at the foot of the window.
function position(player) {
  if (!player.tour) return;
  const { box, rings } = player.tour,
    { offsetWidth: width, offsetHeight: height } = box,
    boxes = boxesOfStop(player),
    part = boxAround(boxes),
    lowest = innerHeight - height - EDGE_PX,
    bar = boxOf(player.find("bar")),
    foot = part.bottom <= bar.top ? bar.bottom : part.bottom, // the buttons stay in view
    rightmost = innerWidth - width - EDGE_PX,
    isBeside = part.bottom - part.top > height && part.right <= rightmost,
    places = [isBeside ? part.top : foot + GAP_PX, part.top - GAP_PX - height, lowest],
    left = isBeside ? part.right + GAP_PX : (part.left + part.right - width) / 2;
  Object.assign(box.style, {
    left: `${Math.max(EDGE_PX, Math.min(rightmost, left))}px`,
    top: `${places.find((place) => place >= EDGE_PX && place <= lowest) ?? EDGE_PX}px`,
  });
  rings.replaceChildren(...boxes.map(drawRing));
}

export function mountTour(player) {
  for (const name of ["resize", "scroll"])
    player.listen(window, name, () => position(player), { passive: true, capture: true });
  const markInUse = () => {
    player.isInUse = true;
  };
  for (const name of ["pointerdown", "keydown"]) player.listen(window, name, markInUse, { capture: true, once: true });
  const sizes = new ResizeObserver(() => position(player));
  sizes.observe(player.canvas);
  player.whenGone(() => sizes.disconnect());
  player.listen(document, "keydown", ({ key }) => {
    if (key === "Escape" && player.tour && !player.root.querySelector("dialog[open]")) closeTour(player);
  });
}
