// Hit tests of marks.

import { timeOf } from "../state/data.js";

const MARK_RADIUS_PX = 6;

// The item whose time is nearest to x, within the radius of a mark; null for none.
export function nearestOf(timeline, items, timeOfItem, x) {
  const apart = (item) => Math.abs(timeline.x(timeOfItem(item)) - x);
  return items.filter((item) => apart(item) < MARK_RADIUS_PX).sort((a, b) => apart(a) - apart(b))[0] ?? null;
}

export function keysAtFrame(run, turns, role, frame, isMeant = () => true) {
  const found = turns.filter((turn) => turn.role === role && turn.frame === frame && isMeant(turn));
  return { keys: found.map((turn) => turn.key).filter(Boolean), time: timeOf(run, frame) };
}
