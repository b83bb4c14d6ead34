// Reviewers' actions, kept in this browser until the store confirms them, so that no lost connection loses one.

const OUTBOX = "stepscope:outbox:";

export class Outbox {
  constructor() {
    this.count = 0;
    this.memory = new Map(); // where the browser forbids storage: kept until the window closes
  }

  get storage() {
    try {
      return window.localStorage;
    } catch {
      return null;
    }
  }

  put(action) {
    const order = `${String(Date.now()).padStart(15, "0")}-${String(this.count++).padStart(6, "0")}`;
    const key = `${OUTBOX}${order}-${action.action_id}`,
      text = JSON.stringify(action);
    try {
      this.storage.setItem(key, text);
    } catch {
      this.memory.set(key, text);
    } // no storage, or no room in it
  }

  get keys() {
    const stored = this.storage ? Object.keys(this.storage).filter((key) => key.startsWith(OUTBOX)) : [];
    return [...new Set([...stored, ...this.memory.keys()])].sort();
  }

  // All waiting actions, oldest first. Skips foreign and damaged entries, and keeps them in the storage.
  all() {
    return this.keys.flatMap((key) => {
      try {
        const action = JSON.parse(this.memory.get(key) ?? this.storage.getItem(key));
        return [action?.action_id, action?.video_id, action?.reviewer].every((name) => typeof name === "string")
          ? [{ ...action, key }]
          : [];
      } catch {
        return [];
      }
    });
  }

  // Removes an action, and returns it.
  remove(actionId) {
    const found = this.all().find(({ action_id }) => action_id === actionId);
    this.memory.delete(found?.key);
    if (found) this.storage?.removeItem(found.key);
    return found;
  }
}

// The ids of waiting actions that are done and of those that are undone, each in the order of the stack that the server
// will have. An undo or redo without a target moves an action that the server has already.
export function stacksOf(actions) {
  const [done, undone] = [[], []];
  const move = (target, from, to) => {
    if (from.includes(target)) to.push(...from.splice(from.lastIndexOf(target), 1));
  };
  for (const { kind, target, action_id } of actions) {
    if (kind === "undo") move(target, done, undone);
    else if (kind === "redo") move(target, undone, done);
    else done.push(action_id);
  }
  return { done, undone };
}

export function newActionId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
