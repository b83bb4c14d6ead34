// Drafts: text typed for an event and not submitted yet.

import { review, reviewer } from "../state/state.js";

export function draftKey(box) { return `${box.className} ${box.dataset.event}`; }

// Submits the text of an input. Without a reviewer's name it stays a draft: Enter submits it once a name is set.
export function submitInput(box, work) {
  review.drafts.set(draftKey(box), box.value);
  if (work(box.value) || reviewer()) review.drafts.delete(draftKey(box));
}

// Fills an input with the opinion on an event, unless the user is typing there; a draft takes precedence.
export function fillInput(box, key, said) {
  const isTyped = document.activeElement === box && box.dataset.event === key;
  box.dataset.event = key;
  if (!isTyped) box.value = review.drafts.get(draftKey(box)) ?? said;
}
