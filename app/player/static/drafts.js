// What is typed of an event and not given yet.

import { review, reviewer } from "./state.js";

export function draftOf(box) { return `${box.className} ${box.dataset.event}`; }

// Gives what was typed in a box. Without a reviewer's name it stays there: Enter gives it once there is one.
export function giveTyped(box, work) {
  review.drafts.set(draftOf(box), box.value);
  if (work(box.value) || reviewer()) review.drafts.delete(draftOf(box));
}

// Fills a box with what is said of an event, unless somebody types there; what was typed and not given comes first.
export function fill(box, key, said) {
  const isTyped = document.activeElement === box && box.dataset.event === key;
  box.dataset.event = key;
  if (!isTyped) box.value = review.drafts.get(draftOf(box)) ?? said;
}
