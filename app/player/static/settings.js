// Settings of this browser.

import { say } from "./status.js";

export function remembered(name, fallback = "") {
  try { return localStorage.getItem(`stepscope:${name}`) ?? fallback; } catch { return fallback; }
}

export function remember(name, value) {
  try { localStorage.setItem(`stepscope:${name}`, value); } catch { say("This browser forbids storage: names are forgotten when the window is closed."); }
}
