// What clicks and drags share.

export const TREMBLE = 4; // pixels that a click may move

export function offset(target, event) {
  const box = target.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

export function follow(target, event, move, end) {
  target.setPointerCapture(event.pointerId);
  target.addEventListener("pointermove", move);
  target.addEventListener("pointerup", (last) => { target.removeEventListener("pointermove", move); end(last); }, { once: true });
}
