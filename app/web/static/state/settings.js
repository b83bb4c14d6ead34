// Settings of this browser.

import { setStatus } from "../dom/status.js";

export function readSetting(name, fallback = "") {
  try {
    return localStorage.getItem(`stepscope:${name}`) ?? fallback;
  } catch {
    return fallback;
  }
}

export function writeSetting(name, value) {
  try {
    localStorage.setItem(`stepscope:${name}`, value);
  } catch {
    setStatus("This browser forbids storage: names are forgotten when the window is closed.");
  }
}
