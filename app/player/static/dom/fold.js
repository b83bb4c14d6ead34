// Buttons that fold and unfold a part of the page. The root element has the state of each part in data-NAME, "open" or
// "folded", for the style sheet.

import { readSetting, writeSetting } from "../state/settings.js";

const { dataset } = document.documentElement;
const findButton = (name) => document.querySelector(`#${name}_fold button`);

export const isFoldOpen = (name) => dataset[name] === "open";

function drawFold(name, state) {
  dataset[name] = state;
  if (findButton(name)) findButton(name).ariaExpanded = state === "open";
}

// Sets the state that the user chose; later windows start with it if the button keeps it.
export function chooseFold(name, state) {
  const button = findButton(name);
  if (!button) return; // the page has no such part
  if (button.dataset.kept === "yes") writeSetting(name, state);
  button.dataset.chosen = state;
  drawFold(name, state);
}

// Sets the state as long as the user has chosen none.
export function suggestFold(name, state) {
  if (!findButton(name)?.dataset.chosen) drawFold(name, state);
}

export function mount({ element, settings: { name, is_kept: isKept } }) {
  const button = element.querySelector("button"),
    chosen = isKept ? readSetting(name) : "";
  Object.assign(button.dataset, { kept: isKept ? "yes" : "no", chosen });
  button.addEventListener("click", () => chooseFold(name, isFoldOpen(name) ? "folded" : "open"));
  drawFold(name, chosen || dataset[name] || "folded");
}
