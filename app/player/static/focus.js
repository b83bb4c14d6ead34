// The head of the page: the split, run, video and moment in focus, each with its menu.

import { openTabOf } from "./address.js";
import { batch } from "./state/batch.js";
import { clockText, countText } from "./state/data.js";
import { keepInWindow, readKept } from "./state/settings.js";
import { isChosen, sentenceOf } from "./state/stops.js";
import { createButton, createNode, waitsForRelease } from "./dom/dom.js";
import { goToFailure } from "./playback/selection.js";

const PARTS = ["split", "run", "video", "moment"];
const MAX_DRAWN = 100; // of a menu; typing finds the others
const OWN_RUNS = "own_runs"; // the latest runs that this window made, with their addresses
const MAX_OWN = 12;
const NOTHING = { split: [""], run: [""], video: [""], moment: [""] };

const readOwnRuns = () => readKept(OWN_RUNS) ?? [];

function keepOwnRun({ run, video_id: video, made_by: about, place, branch, is_finished: isWhole, kept_run: kept }) {
  if (kept || !isWhole || !place.run || place.run === "none") return;
  const others = readOwnRuns().filter(({ id }) => id !== run),
    known = readOwnRuns().find(({ id }) => id === run),
    words = known?.words ?? branch?.name ?? `this page's run of ${new Date().toTimeString().slice(0, 8)}`;
  keepInWindow(OWN_RUNS, [{ id: run, video, about, place, words }, ...others].slice(0, MAX_OWN));
}

// The run that was chosen in Batch or Reviews and is not opened in the player yet.
function pickedRun({ crumbs }) {
  if (batch.entered === null) return crumbs.picked;
  return batch.run === batch.entered ? "" : batch.run;
}

// What is in focus: on Batch the run that it shows, else the player's, unless one was chosen since; on Reviews it may
// be a split without a run.
export function findFocus(player) {
  const { data } = player,
    { nothing } = player.address,
    inBatch = openTabOf("rooms") === "batch" && batch.run,
    own = data?.kept_run ?? "",
    bare = openTabOf("rooms") === "reviews" ? player.crumbs.bare : "",
    run = bare ? "" : inBatch || pickedRun(player) || own,
    known = player.crumbs.runs.get(run);
  const isOwn = run === own && !bare;
  return {
    run,
    isOwn,
    known,
    split: bare || ((isOwn ? (data ?? nothing)?.split : known?.split) ?? ""),
    about: isOwn ? data?.made_by : known?.about,
    video: data?.video_id ?? nothing?.name ?? null,
  };
}

// The run that Batch shows when it is entered: that of a link at first, after Back its own, else the one in focus.
export function runToShow(player) {
  const { data, address } = player,
    { runOfBack } = address;
  address.runOfBack = null;
  if (runOfBack) return runOfBack;
  return (!batch.entered && address.linkAtStart.shown) || pickedRun(player) || data?.kept_run || "";
}

// What the words of a run are worth, and whether the page can make it again; a live session runs now.
function markOf({ settings: { can_run: canRun, model_digest: own } }, { warning, model, is_live: isLive }) {
  const marks = [warning && "bundled model on a foreign video: its words mean nothing"];
  if (!isLive && (!canRun || (own && model !== own))) marks.push("recorded: cannot be run again here");
  return marks.filter(Boolean).join(" · ");
}

// The texts of the parts: what is named, what is said about it, and the mark of a run.
function describe(player) {
  const live = openTabOf("rooms") === "live" && document.querySelector("#live_player .ss")?.unpacked?.();
  if (live) return { ...NOTHING, run: ["live session", live.made_by, markOf(player, live)], video: [live.name, ""] };
  const { data } = player,
    { run, isOwn, split, about, video, known } = findFocus(player),
    name = data?.name ?? player.address.nothing?.name;
  const beside = data?.other && ` beside ${data.other.letter} ${data.other.run_name}`,
    ownRun = !data || data.isReferenceAlone ? "no run" : run || data.branch?.name || "this page's run",
    letter = data?.letter ? `${data.letter} ` : "",
    stop = isOwn && player.stopIndex !== null ? data?.stops?.[player.stopIndex] : null;
  const mistakes = data?.is_judged && isOwn ? countText(data.mistakes.length, "mistake") : "";
  if (live !== false || (!data && !player.address.nothing)) return NOTHING;
  const isAwaited = run && !isOwn && !known,
    unnamed = isAwaited ? "…" : video && !run ? "uploads" : "its own split";
  return {
    split: [split || unnamed, ""],
    run: isOwn
      ? [`${letter}${ownRun}${beside ?? ""}`, ...(ownRun === "no run" ? [""] : [about, markOf(player, data)])]
      : [run || "no run", about, known ? markOf(player, known) : ""],
    video: isOwn && name ? [name, mistakes] : ["choose a video", ""],
    moment:
      !isOwn || !data ? ["", ""] : stop ? [clockText(stop.time), sentenceOf(player, stop)] : [momentOf(player), ""],
  };
}

// While it plays, whole seconds: they are drawn once each.
const momentOf = ({ video }) => (video.isPaused ? clockText(video.time) : clockText(Math.floor(video.time), 0));

// Draws the parts again if their texts or the tab of the page have changed.
export function drawFocus(player) {
  const { crumbs: focus } = player,
    tab = nameTabs();
  if (!focus.box) return;
  openPicked(player, tab);
  const texts = describe(player),
    drawn = JSON.stringify(texts);
  if (drawn === focus.drawn || waitsForRelease(focus.box, () => drawFocus(player))) return;
  focus.drawn = drawn;
  askForRun(player);
  focus.mark.textContent = texts.run[2] ? `⚠ ${texts.run[2]}` : "";
  for (const part of PARTS) {
    const [name, about] = texts[part],
      button = focus.parts[part];
    button.parentElement.hidden = !name;
    button.disabled = tab === "live";
    button.replaceChildren(createNode("b", "", name), about ? createNode("span", "", about) : "");
    button.title = about ? `${name}: ${about}` : name;
    if (button.ariaHasPopup) button.ariaLabel = `${part}: ${button.title}. Choose another one`;
  }
}

// Opens the run that was chosen in Batch when the player is shown, at the same moment of the same video if it has it.
function openPicked(player, tab) {
  const { crumbs: focus } = player,
    isEntered = tab === "player" && focus.tab && focus.tab !== "player",
    run = isEntered && !player.receiver.run ? pickedRun(player) : "";
  focus.tab = tab;
  if (run) openFocus(player, { run, video: player.data?.video_id, at: player.video.time });
}

function openFocus(player, { split, run, video, at }) {
  player.trigger("open_focus", { split: split ?? "", run: run ?? "", video: video ?? "", at: at ?? null });
}

// A run that Batch shows is known once the runs were listed.
function askForRun(player) {
  const { run, isOwn } = findFocus(player);
  if (isOwn || !run || player.crumbs.asked === run || player.crumbs.runs.has(run)) return;
  player.crumbs.asked = run;
  player.trigger("list_choices", { part: "run", split: "", run: "" });
}

// Receives the entries of a menu, or those among which Reviews has chosen a split: its newest run is in focus then.
export function receiveChoices(player, { part, found }) {
  const { crumbs: focus } = player;
  const chosen = part === "split" && found.find(({ id }) => id === focus.chosen);
  if (part === "split") focus.chosen = null;
  if (chosen?.run) showRun(player, chosen.run);
  else if (chosen) focus.bare = chosen.id;
  if (part === "run") focus.runs = new Map(found.map((one) => [one.id, one]));
  focus.drawn = "";
  if (focus.open === part) {
    focus.found = part === "run" ? [...listOwnRuns(player), ...found] : found;
    drawChoices(player);
  }
  drawFocus(player);
}

function listOwnRuns({ data }) {
  const own = readOwnRuns().filter(({ video }) => video === data?.video_id);
  return own.map((one) => ({ ...one, isCurrent: one.id === data.run }));
}

function listMoments(player) {
  const { stops = [] } = player.data;
  return stops.flatMap((stop, number) =>
    isChosen(player, stop)
      ? [
          {
            id: number,
            words: clockText(stop.time),
            about: sentenceOf(player, stop),
            isCurrent: isCurrent(player, number),
          },
        ]
      : [],
  );
}

function isCurrent({ stopIndex, data }, number) {
  const mistake = data.stops[stopIndex ?? -1]?.mistake;
  return number === stopIndex || (mistake !== undefined && data.stops[number].mistake === mistake);
}

function openMenu(player, part) {
  const { crumbs: focus } = player,
    { split, run } = findFocus(player);
  Object.assign(focus, { open: part, found: null, at: 0 });
  focus.words.value = "";
  focus.parts[part].parentElement.append(focus.menu);
  focus.parts[part].ariaExpanded = true;
  focus.menu.hidden = false;
  focus.words.placeholder = `type to find a ${part}`;
  focus.words.focus({ preventScroll: true });
  drawChoices(player);
  if (part === "moment") receiveChoices(player, { part, found: listMoments(player) });
  else player.trigger("list_choices", { part, split, run });
}

function closeMenu({ crumbs: focus }, isFocused = true) {
  if (!focus.open) return;
  const button = focus.parts[focus.open];
  focus.open = null;
  focus.menu.hidden = true;
  button.ariaExpanded = false;
  if (isFocused) button.focus({ preventScroll: true });
}

// The entries with all typed words; the chosen one is under the keys.
function drawChoices(player) {
  const { crumbs: focus } = player,
    terms = focus.words.value.toLowerCase().split(/\s+/),
    isFound = ({ words, about }) => terms.every((term) => `${words} ${about}`.toLowerCase().includes(term));
  const found = (focus.found ?? []).filter(isFound),
    now = findFocus(player)[focus.open],
    isNow = (one) => one.isCurrent || (!one.place && one.id === now);
  if (!focus.words.value && focus.at === 0) focus.at = Math.max(0, found.findIndex(isNow));
  focus.at = Math.max(0, Math.min(focus.at, Math.min(found.length, MAX_DRAWN) - 1));
  focus.shown = found.slice(0, MAX_DRAWN);
  const options = focus.shown.map((one, number) => {
    const count = typeof one.count === "number" && countText(one.count, "mistake"),
      option = createNode("li", "", [createNode("b", "", one.words), createNode("span", "", one.about || count || "")]);
    Object.assign(option, { id: `focus_${number}`, role: "option", ariaSelected: number === focus.at });
    if (isNow(one)) option.ariaCurrent = "true";
    option.onclick = () => choose(player, one);
    return option;
  });
  const rest = found.length - focus.shown.length,
    note = !focus.found
      ? "Loading…"
      : rest > 0
        ? `and ${rest} more: type to find them`
        : found.length
          ? ""
          : "None found";
  focus.list.replaceChildren(...options);
  focus.note.textContent = note;
  focus.words.setAttribute("aria-activedescendant", options.length ? `focus_${focus.at}` : "");
  options[focus.at]?.scrollIntoView({ block: "nearest" });
  focus.menu.style.translate = ""; // below its part, unless the window ends before
  const beyond = focus.menu.getBoundingClientRect().right + 8 - document.documentElement.clientWidth;
  if (beyond > 0) focus.menu.style.translate = `${-beyond}px`;
}

function choose(player, one) {
  const part = player.crumbs.open,
    { split, run, video } = findFocus(player),
    isElsewhere = ["batch", "reviews"].includes(openTabOf("rooms")),
    at = player.data?.times.length ? player.video.time : null;
  closeMenu(player);
  if (part === "moment") return goToMoment(player, one.id);
  if (one.place) return location.assign(`?${new URLSearchParams({ ...one.place, t: at?.toFixed(1) ?? "0" })}`);
  const chosen = part === "split" ? one.run : part === "run" ? one.id : run;
  if (part !== "video" && isElsewhere && chosen) return showRun(player, chosen);
  if (part === "split") return openFocus(player, { split: one.id, run: chosen });
  if (part === "run") return openFocus(player, { split: one.split, run: chosen, video, at });
  openFocus(player, { split, run, video: one.id });
}

function pickRun({ crumbs, trigger }, run) {
  Object.assign(crumbs, { picked: run, bare: "" });
  trigger("show_run", { a: run, b: "" });
}

// Puts a run in focus that was chosen in Reviews.
export function chooseRun(player, run) {
  if (run && run !== findFocus(player).run) pickRun(player, run);
}

// Puts the newest run of a split in focus, once the server has named it.
export function chooseSplit(player, split) {
  player.crumbs.chosen = split;
  player.trigger("list_choices", { part: "split", split: "", run: "" });
}

// Shows a run in Batch, and if they are open in Reviews.
function showRun(player, run) {
  pickRun(player, run);
  if (openTabOf("rooms") === "reviews") player.trigger("review_run", { run });
}

// Goes to a mistake, in the player.
function goToMoment(player, number) {
  if (openTabOf("rooms") !== "player") player.trigger("open_tabs", { tab: "player", view: null });
  goToFailure(player, number);
}

function onKey(player, event) {
  const { crumbs: focus } = player,
    by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
  if (event.isComposing || (!focus.open && event.key !== "ArrowDown")) return;
  if (!focus.open) openMenu(player, event.target.dataset.part);
  else if (event.key === "Enter" && focus.shown[focus.at]) choose(player, focus.shown[focus.at]);
  else if (event.key === "Escape") closeMenu(player);
  else if (by) {
    focus.at += by;
    drawChoices(player);
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

// Keeps a run that this window made, for the menu of runs.
export function followRun(player) {
  if (!player.crumbs.box) return;
  if (player.data && batch.entered !== null) batch.entered = batch.run;
  if (player.data) Object.assign(player.crumbs, { picked: "", bare: "" });
  if (player.data && player.settings.can_run) keepOwnRun(player.data);
  player.crumbs.drawn = "";
  drawFocus(player);
}

// The open tab and the view of Batch are attributes of the root element, for the style sheets: a `:has` that looks at
// the style of a panel is looked at again with each style that changes anywhere on the page. Returns the tab.
function nameTabs() {
  const room = openTabOf("rooms"),
    { dataset } = document.documentElement;
  for (const [name, id] of Object.entries({ room, view: room === "batch" ? openTabOf("batch_views") : null }))
    if (dataset[name] !== (id ?? "")) dataset[name] = id ?? "";
  return room;
}

export function mountFocus(player) {
  const { crumbs: focus } = player,
    box = document.querySelector(".focus"),
    menus = player.settings.can_run ? PARTS : ["video", "moment"];
  if (!box) return;
  Object.assign(focus, { box, parts: {}, mark: createNode("strong", "focus-mark") });
  const toggle = (part) => () =>
    focus.open === part ? closeMenu(player) : (closeMenu(player), openMenu(player, part));
  const list = PARTS.map((part) => {
    const button = menus.includes(part) ? createButton("", "", toggle(part)) : createNode("span");
    if (menus.includes(part)) Object.assign(button, { ariaHasPopup: "listbox", ariaExpanded: false });
    button.dataset.part = part;
    focus.parts[part] = button;
    return createNode("li", "", part === "run" ? [button, focus.mark] : button);
  });
  focus.words = createNode("input", "", "", {
    type: "search",
    autocomplete: "off",
    role: "combobox",
    ariaExpanded: true,
  });
  focus.words.ariaLabel = "Find";
  focus.words.setAttribute("aria-controls", "focus_list");
  focus.list = createNode("ul", "", "", { id: "focus_list", role: "listbox", ariaLabel: "Choices" });
  focus.note = createNode("p", "", "", { role: "status" });
  focus.menu = createNode("div", "focus-menu", [focus.words, focus.list, focus.note], { hidden: true });
  focus.words.oninput = () => {
    focus.at = 0;
    drawChoices(player);
  };
  box.replaceChildren(createNode("ol", "", list));
  player.listen(box, "keydown", (event) => onKey(player, event));
  player.listen(document, "click", () => requestAnimationFrame(nameTabs)); // of a tab
  player.listen(document, "pointerdown", ({ target }) => {
    if (focus.open && !focus.parts[focus.open].parentElement.contains(target)) closeMenu(player, false);
  });
  player.listen(box, "focusout", ({ relatedTarget }) => {
    if (relatedTarget && !box.contains(relatedTarget)) closeMenu(player, false);
  });
  drawFocus(player);
}
