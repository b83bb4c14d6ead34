// Settings of this browser.

export function readSetting(name, fallback = "") {
  try {
    return localStorage.getItem(`stepscope:${name}`) ?? fallback;
  } catch {
    return fallback;
  }
}

// A kept value, by default one that this window keeps over a reload; null without it.
export function readKept(name, storage = "sessionStorage") {
  try {
    return JSON.parse(window[storage].getItem(`stepscope:${name}`));
  } catch {
    return null;
  }
}

export function keepInWindow(name, value) {
  try {
    sessionStorage.setItem(`stepscope:${name}`, JSON.stringify(value));
  } catch {} // a browser without storage keeps nothing
}

// Returns whether the browser keeps the setting: it may forbid storage.
export function writeSetting(name, value) {
  try {
    localStorage.setItem(`stepscope:${name}`, value);
    return true;
  } catch {
    return false;
  }
}
