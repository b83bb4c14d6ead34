// The light or dark theme: that of the system or of the address (`?__theme=dark`), until the reader chooses one.

import { readSetting, writeSetting } from "../state/settings.js";

const system = matchMedia("(prefers-color-scheme: dark)");

function show(button) {
  const chosen = readSetting("theme") || new URLSearchParams(location.search).get("__theme"),
    isDark = ["light", "dark"].includes(chosen) ? chosen === "dark" : system.matches;
  document.body.classList.toggle("dark", isDark);
  button.ariaPressed = isDark;
}

export function mountTheme() {
  const button = document.querySelector("#theme");
  if (!button || button.hasAttribute("aria-pressed")) return;
  Object.assign(button, { ariaLabel: "Dark theme", title: "Light or dark theme" });
  show(button);
  system.addEventListener("change", () => show(button));
  button.addEventListener("click", () => {
    writeSetting("theme", document.body.classList.contains("dark") ? "light" : "dark");
    show(button);
  });
}
