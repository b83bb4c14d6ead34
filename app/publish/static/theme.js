// The light or dark theme: that of the system, until the reader chooses one.

import { readSetting, writeSetting } from "../player/state/settings.js";

const system = matchMedia("(prefers-color-scheme: dark)");

function show() {
  const chosen = readSetting("theme"),
    isDark = chosen ? chosen === "dark" : system.matches;
  document.body.classList.toggle("dark", isDark);
  document.querySelector("#theme").setAttribute("aria-pressed", isDark);
}

export function mountTheme() {
  show();
  system.addEventListener("change", show);
  document.querySelector("#theme").addEventListener("click", () => {
    writeSetting("theme", document.body.classList.contains("dark") ? "light" : "dark");
    show();
  });
}
