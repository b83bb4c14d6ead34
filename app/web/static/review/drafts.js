// Drafts: text typed for an event and not submitted yet.

export function draftKey(box) {
  return `${box.className} ${box.dataset.event}`;
}

// Submits the text of an input with `work`. It stays a draft while the action waits for a reviewer's name.
export function submitInput(player, box, work) {
  const key = draftKey(box),
    forget = () => player.review.drafts.delete(key);
  player.review.drafts.set(key, box.value);
  work(box.value, forget);
  if (player.reviewer) forget();
}

// Fills an input with the opinion on an event, unless the user is typing there; a draft takes precedence.
export function fillInput(player, box, key, said) {
  const isTyped = document.activeElement === box && box.dataset.event === key;
  box.dataset.event = key;
  if (!isTyped) box.value = player.review.drafts.get(draftKey(box)) ?? said;
}
