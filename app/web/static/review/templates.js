// Texts to choose from while a turn of the reference is typed: of its reference, or typed before in this browser.

import { createNode } from "../dom/dom.js";
import { readSetting, writeSetting } from "../state/settings.js";

const SETTING = "texts",
  MOST_KEPT = 40;

function typedTexts() {
  try {
    const texts = JSON.parse(readSetting(SETTING, "[]"));
    return Array.isArray(texts) ? texts.filter((text) => typeof text === "string") : [];
  } catch {
    return [];
  }
}

export function keepText(text) {
  const others = typedTexts().filter((other) => other !== text);
  if (text) writeSetting(SETTING, JSON.stringify([text, ...others].slice(0, MOST_KEPT)));
}

// The texts that a turn of a role can have, without repeats.
export function templatesFor(player, role) {
  if (role === "update") return player.data.steps.flatMap(({ id }) => [`${id}->start`, `${id}->complete`]);
  const texts = player.layer.turns.filter((turn) => turn.role === role).map(({ text }) => text.trim());
  return [...new Set([...typedTexts(), ...texts])];
}

// Offers the texts of `roleOf()` in a text box while it has the focus.
export function mountTemplates(player, box, roleOf) {
  const list = createNode("datalist");
  list.id = `${player.settings.video_id}-${box.className}-texts`;
  box.after(list);
  box.setAttribute("list", list.id);
  box.addEventListener("focus", () => {
    const role = player.data && player.layer ? roleOf() : null;
    const options = role ? templatesFor(player, role) : [];
    list.replaceChildren(...options.map((value) => Object.assign(createNode("option"), { value })));
  });
}
