// Pointer helpers of clicks and drags.

export const CLICK_SLOP_PX = 4; // a pointer that moves less is a click

export function pointerOffset(target, event) {
  const box = target.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

export function trackDrag(target, event, move, end) {
  target.setPointerCapture(event.pointerId);
  target.addEventListener("pointermove", move);
  target.addEventListener(
    "pointerup",
    (last) => {
      target.removeEventListener("pointermove", move);
      end(last);
    },
    { once: true },
  );
}
