// Elements of the player: finding them, making them. Texts enter as textContent only.

// Returns a text for showing: marks that turn the order of what follows, such as U+202E, are written as escapes.
export function showTurns(text) {
  return String(text).replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, (mark) => `\\u${mark.charCodeAt(0).toString(16)}`);
}

export function createNode(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = showTurns(text);
  return made;
}

export function createQuote(who, text) {
  const box = createNode("p", "ss-text ss-quoted");
  box.append(createNode("span", "ss-tag", who), showTurns(text));
  return box;
}

export const EVENT_INPUTS = ".ss-tags, .ss-note, .ss-edited, .ss-when, .ss-until";

// The focused input of the current event; null for none.
export function focusedInput(player) {
  const box = document.activeElement;
  return box?.matches(EVENT_INPUTS) && player.element.contains(box) ? box : null;
}

// Returns the focus to the player after a click on a control; a control that was reached with Tab keeps it.
export function returnFocus(player, control) {
  if (control === document.activeElement && player.canvas.offsetParent) player.canvas.focus({ preventScroll: true });
}
