// Settings of this browser.

export function readSetting(name, fallback = "") {
  try {
    return localStorage.getItem(`stepscope:${name}`) ?? fallback;
  } catch {
    return fallback;
  }
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
