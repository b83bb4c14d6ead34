// A tour of the page in five stops: a small popover beside each part, under which the page works as usual.

import { createNode } from "../dom/dom.js";
import { readSetting, writeSetting } from "../state/settings.js";

const GAP_PX = 12,
  EDGE_PX = 8; // between the popover and its part, and the window's edge
const BELOW_SIGNALS = ["cache", "axis"];
const SETTING = "tour",
  SEEN = "seen";
const STOPS = [
  [
    "The video and the model",
    "The video stands at the failure that the line below names. Beside it: the model's decisions at this " +
      "frame with their probabilities, its words, and the reference.",
    (player) =>
      [...document.querySelectorAll(`#${player.settings.video_id}`), player.find("now"), player.find("said")].map(
        boxOf,
      ),
  ],
  [
    "Lanes",
    "Dialogue and step states over time, the reference above the model. Hatching shows where they differ. A " +
      "click goes there.",
    (player) => boxesOfRows(player, ({ kind }) => kind !== "trace" && !BELOW_SIGNALS.includes(kind)),
  ],
  [
    "Signals and thresholds",
    "The probability of speaking and of updating, frame by frame. Drag a dashed threshold to preview other " +
      "decisions; on release they are run exactly.",
    (player) => boxesOfRows(player, ({ kind }) => kind === "trace"),
  ],
  [
    "Failures",
    "N goes to the next failure, P to the previous one. The signs beside it count each kind and choose where N stops.",
    (player) => [player.find("next"), player.find("kinds")].map(boxOf),
  ],
  [
    "Batch and Reviews",
    "Batch runs whole splits, tunes thresholds and compares runs. Reviews collects verdicts of several " +
      "people. The key ? lists all keys and starts this tour again.",
    () => [...document.querySelectorAll("#rooms > .tab-wrapper [role=tab]:not([aria-selected=true])")].map(boxOf),
  ],
];

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
  const [box, rings, arrow] = ["ss-tour", "ss-tour-rings", "ss-tour-arrow"].map((name) => createNode("div", name));
  const [title, text, place, back, next, close] = [
    createNode("h3"),
    createNode("p"),
    createNode("span", "ss-dim"),
    ...["back", "next", "×"].map((words) => createNode("button", "", words)),
  ];
  const buttons = createNode("p", "ss-line");
  buttons.append(place, back, next);
  box.append(arrow, title, close, text, buttons);
  title.id = "ss-tour-title";
  text.id = "ss-tour-text";
  for (const [name, value] of Object.entries({
    role: "dialog",
    tabindex: "-1",
    "aria-labelledby": title.id,
    "aria-describedby": text.id,
  }))
    box.setAttribute(name, value);
  close.setAttribute("aria-label", "Close the tour");
  close.className = "ss-tour-close";
  close.title = "Close the tour (Esc)";
  const stops = STOPS.filter(([, , boxes]) => boxes(player).length); // a published player has one tab
  player.tour = { box, rings, arrow, title, text, place, back, next, stops, number: 0, before: document.activeElement };
  for (const [button, act] of [
    [back, () => goTo(player, player.tour.number - 1)],
    [next, () => goTo(player, player.tour.number + 1)],
    [close, () => closeTour(player)],
  ]) {
    button.type = "button";
    button.addEventListener("click", act);
  }
  box.addEventListener("keydown", (event) => onKey(player, event));
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
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation(); // else the player would step a frame
  if (player.tour.stops[player.tour.number + by]) goTo(player, player.tour.number + by);
}

function goTo(player, number) {
  if (number === player.tour.stops.length) return closeTour(player);
  const [title, text] = player.tour.stops[(player.tour.number = number)];
  player.tour.title.textContent = title;
  player.tour.text.textContent = text;
  player.tour.place.textContent = `${number + 1} of ${player.tour.stops.length}`;
  player.tour.back.disabled = number === 0;
  player.tour.next.textContent = number === player.tour.stops.length - 1 ? "done" : "next";
  scrollToStop(player);
  position(player);
}

// The box around the parts of a stop, in the window.
function boxAround(boxes) {
  const [left, top] = ["left", "top"].map((side) => Math.min(...boxes.map((box) => box[side])));
  const [right, bottom] = ["right", "bottom"].map((side) => Math.max(...boxes.map((box) => box[side])));
  return { left, top, right, bottom };
}

function drawRing({ left, top, right, bottom }) {
  const ring = createNode("div", "ss-tour-ring");
  Object.assign(ring.style, {
    left: `${left - 3}px`,
    top: `${top - 3}px`,
    width: `${right - left + 6}px`,
    height: `${bottom - top + 6}px`,
  });
  return ring;
}

// The places of the popover that lie in the window, with its side: below the parts, above them, below the toolbar
// (without an arrow), or beside one of them.
function placesOf(player, boxes, { offsetWidth: width, offsetHeight: height }) {
  const part = boxAround(boxes),
    clamped = (value, most) => Math.max(EDGE_PX, Math.min(most - EDGE_PX, value));
  const left = clamped((part.left + part.right - width) / 2, innerWidth - width),
    below = { side: "below", left, top: part.bottom + GAP_PX };
  const beside = boxes.flatMap((box) => {
    const top = clamped((box.top + box.bottom - height) / 2, innerHeight - height);
    return [
      { side: "right", left: box.right + GAP_PX, top },
      { side: "left", left: box.left - GAP_PX - width, top },
    ];
  });
  const underBar = { side: "", left, top: boxOf(player.find("bar")).bottom + GAP_PX };
  const places = [below, { side: "above", left, top: part.top - GAP_PX - height }, underBar, ...beside].map(
    (place) => ({ ...place, right: place.left + width, bottom: place.top + height }),
  );
  const inWindow = places.filter(
    (place) =>
      Math.min(place.left, place.top) >= EDGE_PX &&
      place.right <= innerWidth - EDGE_PX &&
      place.bottom <= innerHeight - EDGE_PX,
  );
  return inWindow.length ? inWindow : [{ ...places[0], top: Math.max(EDGE_PX, innerHeight - height - EDGE_PX) }];
}

// The area of a place over the toolbar and the parts of the stop, in pixels.
function coveredBy(player, place, boxes) {
  const shared = (box, low, high) => Math.max(0, Math.min(place[high], box[high]) - Math.max(place[low], box[low]));
  return [boxOf(player.find("bar")), ...boxes].reduce(
    (sum, box) => sum + shared(box, "left", "right") * shared(box, "top", "bottom"),
    0,
  );
}

// The first place of the popover that covers least.
function bestPlace(player, boxes) {
  const places = placesOf(player, boxes, player.tour.box),
    covered = places.map((place) => coveredBy(player, place, boxes)),
    least = Math.min(...covered);
  return { place: places[covered.indexOf(least)], least };
}

// Scrolls such that the parts of the stop are in the window, and the popover beside them where it would cover some.
function scrollToStop(player) {
  const boxes = player.tour.stops[player.tour.number][2](player),
    { top, bottom } = boxAround(boxes);
  if (bottom > innerHeight || top < 0) scrollBy({ top: Math.min(top - EDGE_PX, bottom + EDGE_PX - innerHeight) });
  const moved = player.tour.stops[player.tour.number][2](player);
  if (!bestPlace(player, moved).least) return;
  const part = boxAround(moved),
    missing = Math.ceil(part.bottom + GAP_PX + player.tour.box.offsetHeight + EDGE_PX - innerHeight);
  if (missing > 0) scrollBy({ top: Math.min(missing, part.top - EDGE_PX) });
}

// Places the popover where it covers least, with an arrow to the middle of its parts.
function position(player) {
  if (!player.tour) return;
  const { box, rings, arrow } = player.tour,
    boxes = player.tour.stops[player.tour.number][2](player),
    part = boxAround(boxes),
    { place } = bestPlace(player, boxes);
  Object.assign(box.style, { left: `${place.left}px`, top: `${place.top}px` });
  box.dataset.side = place.side;
  const isBeside = ["left", "right"].includes(place.side),
    [from, to, size] = isBeside ? ["top", "bottom", box.offsetHeight] : ["left", "right", box.offsetWidth];
  const along = Math.max(14, Math.min(size - 14, (part[from] + part[to]) / 2 - place[from]));
  Object.assign(arrow.style, { left: "", top: "", [from]: `${along}px` });
  rings.replaceChildren(...boxes.map(drawRing));
}

export function mountTour(player) {
  const { signal } = player.listeners;
  for (const name of ["resize", "scroll"])
    addEventListener(name, () => position(player), { signal, passive: true, capture: true });
  for (const name of ["pointerdown", "keydown"])
    addEventListener(
      name,
      () => {
        player.isInUse = true;
      },
      { signal, capture: true, once: true },
    );
  const sizes = new ResizeObserver(() => position(player));
  sizes.observe(player.canvas);
  signal.addEventListener("abort", () => sizes.disconnect());
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "Escape" && player.tour && !player.root.querySelector("dialog[open]")) closeTour(player);
    },
    { signal },
  );
}
