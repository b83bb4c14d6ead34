// Elements of the page: making them, the status line, the focus, and the pointer. Texts enter as text only.

import { writeSetting } from "../state/settings.js";
import { sentenceOf } from "../state/stops.js";

// Returns a text for showing: marks that turn the order of what follows, such as U+202E, are written as escapes.
export function showTurns(text) {
  return String(text).replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, (mark) => `\\u${mark.charCodeAt(0).toString(16)}`);
}

// Returns a text for showing, for readers of HTML or its like.
export function escapeMarkup(text) {
  return showTurns(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

// Makes an element with its content (a text, an element, or a list of both, in which "", false and null are skipped)
// and its properties, such as `title`, `ariaLabel`, `onclick` or `dataset`. Texts and names are for showing.
export function createNode(tag, className = "", content = "", { dataset, ...properties } = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  for (const name of ["title", "ariaLabel"]) if (properties[name]) made[name] = showTurns(properties[name]);
  if (className) made.className = className;
  if (dataset) Object.assign(made.dataset, dataset);
  for (const part of [content].flat())
    if (part || part === 0) made.append(part instanceof Node ? part : showTurns(part));
  return made;
}

export function createButton(className, content, onclick, properties = {}) {
  return createNode("button", className, content, { type: "button", onclick, ...properties });
}

// Makes a table of rows of cells, each an element or the content of one.
export function createTable(className, rows) {
  const cellOf = (cell) => (cell instanceof Node ? cell : createNode("td", "", cell)),
    body = rows.map((cells) => createNode("tr", "", cells.map(cellOf)));
  return createNode("table", className, createNode("tbody", "", body));
}

export function createQuote(who, text) {
  return createNode("p", "ss-text ss-quoted", [createNode("span", "ss-tag", who), ...[text].flat()]);
}

// Sets the status line. A message about failures or events is cleared when a new judgement arrives.
export function setStatus(player, words, isOfJudgement = false) {
  const stop = isOfJudgement ? player.data?.stops?.[player.stopIndex] : null,
    sentence = stop ? ` · ${sentenceOf(player, stop)}` : "",
    at = sentence ? words.indexOf(sentence) : -1,
    end = at + sentence.length,
    said = player.find("said");
  if (at < 0) said.textContent = showTurns(words);
  else
    // the card says it, too, where that is in view
    said.replaceChildren(words.slice(0, at), createNode("span", "ss-told", showTurns(sentence)), words.slice(end));
  player.isStatusOfJudgement = isOfJudgement;
}

// Keeps a setting of this browser, or says that it cannot.
export function keepSetting(player, name, value) {
  if (!writeSetting(name, value))
    setStatus(player, "This browser forbids storage: names are forgotten when the window is closed.");
}

export function saveLink(href, download) {
  createNode("a", "", "", { href, download }).click();
}

export function saveBlob(blob, name) {
  const href = URL.createObjectURL(blob);
  saveLink(href, name);
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

const SHIFTED_DIGITS = ")!@#$%^&*("; // of a US keyboard
const SIGNS_AT = { KeyQ: ";/", KeyW: "'" }; // where Greek, and Hebrew, have signs in place of letters
const PLACES = { Comma: ",<", Period: ".>", Slash: "/?", Semicolon: ";:" };

// The character of a pressed key. Where the layout has none such, it is that of the key's place on a US keyboard: for
// digits that need Shift (French), and for letters of another script.
export function keyOf({ key, code = "", shiftKey }) {
  const digit = /^Digit(\d)$/.exec(code)?.[1],
    isOther = /^\P{ASCII}/u.test(key) && !/^\p{Script=Latin}/u.test(key);
  if (digit && !shiftKey && key !== SHIFTED_DIGITS[digit]) return digit;
  if (code.startsWith("Key") && (isOther || SIGNS_AT[code]?.includes(key))) return code.slice(3).toLowerCase();
  return (isOther && PLACES[code]?.[Number(shiftKey)]) || key.toLowerCase();
}

const pressed = { isDown: false, draws: new Map() };

// Whether a button is pressed: `draw` is then called once it is released. Drawn again in between, as when a press takes
// the focus from a text box, it would lose its click. A later draw of the same `box` replaces the one that waits.
export function waitsForRelease(box, draw) {
  if (pressed.isDown) pressed.draws.set(box, draw);
  return pressed.isDown;
}

function onPress({ type, target, button }) {
  if (type === "blur" && target !== window) return;
  pressed.isDown = type === "mousedown" && !button && target.closest("button, summary, a, [role=button]") !== null;
  if (type === "mousedown" || !pressed.draws.size) return;
  const draws = [...pressed.draws.values()];
  pressed.draws.clear();
  setTimeout(() => draws.forEach((draw) => draw())); // the click comes first
}

for (const type of ["mousedown", "mouseup", "dragend", "blur"]) window.addEventListener(type, onPress, true);

export const EVENT_INPUTS = "[data-typed]"; // inputs of the review panel that are typed for an event

// The name of what is typed in such an input for its event and not stored yet.
export function draftKey(box, event = box.dataset.event) {
  return `${box.className} ${event}`;
}

// The focused input of the current event; null for none.
export function focusedInput(player) {
  const box = document.activeElement;
  return box?.matches(EVENT_INPUTS) && player.element.contains(box) ? box : null;
}

export const CLICK_SLOP_PX = 4; // a pointer that moves less is a click

export function pointerOffset(target, event) {
  const box = target.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

export function trackDrag(target, event, move, end = () => {}) {
  target.setPointerCapture(event.pointerId);
  target.addEventListener("pointermove", move);
  const release = (last) => {
    target.removeEventListener("pointermove", move);
    end(last);
  };
  target.addEventListener("pointerup", release, { once: true });
}
