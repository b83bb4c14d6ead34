// Elements of the player: finding them, making them. Texts enter as textContent alone.

import { host, ui } from "./state.js";

export function find(name) { return host.element.querySelector(`.ss-${name}`); }

export function node(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}

export function quoted(who, text) {
  const box = node("p", "ss-text ss-quoted");
  box.append(node("span", "ss-tag", who), text);
  return box;
}

export const TYPED = ".ss-tags, .ss-note, .ss-edited";

// The box in which something is typed of the current event; null when nothing is.
export function typedBox() {
  const box = document.activeElement;
  return box?.matches(TYPED) && host.element.contains(box) ? box : null;
}

// A control that the mouse has pressed gives the keys back to the player; one that was reached with Tab keeps its own.
export function takeKeysFrom(control) {
  if (control === document.activeElement && ui.canvas.offsetParent) ui.canvas.focus({ preventScroll: true });
}
