// The tags and causes of the split's vocabulary: buttons in the review panel, pressed by keys while one has the focus.

import { submitForEvent } from "../review/actions.js";
import { createNode, returnFocus } from "../dom/dom.js";
import { currentEvent, opinion } from "../review/opinions.js";
import { openTab } from "./tabs.js";

const KEYS = "1234567890abcdefhijklmnopqrstuvwxyz"; // without G, which goes on to the text box

// Draws a button for each name; a cause is the tag `cause:NAME`. The buttons are kept while the vocabulary is the same.
export function drawVocabulary(player, event, given) {
  const box = player.find("vocabulary"),
    { tags = [], causes = [], problem = "" } = player.review.state?.vocabulary ?? {};
  const entries = [
    ...tags.map(([name, meaning]) => [name, name, meaning]),
    ...causes.map(([name, meaning]) => [`cause:${name}`, `cause: ${name}`, meaning]),
  ];
  const content = JSON.stringify([entries, problem]);
  if (box.dataset.content !== content) {
    box.dataset.content = content;
    box.hidden = !entries.length && !problem;
    const buttons = entries.map((entry, number) => makeButton(player, entry, KEYS[number] ?? ""));
    box.replaceChildren(...buttons, ...(problem ? [createNode("p", "ss-failure", problem)] : []));
  }
  for (const button of box.querySelectorAll("button")) {
    button.disabled = !event;
    button.setAttribute("aria-pressed", given.includes(button.dataset.tag));
  }
}

function makeButton(player, [tag, words, meaning], key) {
  const button = createNode("button", "ss-word");
  button.type = "button";
  button.dataset.tag = tag;
  button.dataset.key = key;
  button.title = meaning ? `${words}: ${meaning}` : words;
  if (key) button.append(createNode("kbd", "", key.toUpperCase()));
  button.append(createNode("span", "", words));
  button.addEventListener("click", ({ detail }) => {
    const event = currentEvent(player),
      given = event ? opinion(player, event.key).tags : [];
    const tags = given.includes(tag) ? given.filter((other) => other !== tag) : [...given, tag];
    submitForEvent(player, "tags", { tags }, () => {});
    if (detail) returnFocus(player, button); // after a click digits judge again
  });
  return button;
}

// Goes to the buttons, or to the text box without a vocabulary.
export function focusTags(player) {
  openTab(player, "review");
  (player.find("vocabulary").querySelector("button:enabled") ?? player.find("tags")).focus();
}

export function mountVocabulary(player) {
  const box = player.find("vocabulary");
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase(),
      button = [...box.querySelectorAll("button")].find((one) => one.dataset.key === key);
    if (button) button.click();
    else if (key === "g") player.find("tags").focus();
    else if (key === "escape") player.canvas.focus({ preventScroll: true });
    else return;
    event.preventDefault();
    event.stopPropagation(); // the player's own keys judge
  });
}
