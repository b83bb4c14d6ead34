// The published page: the table of videos, or one of them in the player. The address chooses: ?video=ID&t=SECONDS.

import { showTurns } from "../player/dom/dom.js";
import { showTable } from "./table.js";
import { mountTheme } from "./theme.js";
import { openVideo } from "./view.js";

const status = document.querySelector("#status");

// Returns the text of a file of this folder. The browser asks the server whether its copy is current.
async function fetchText(path) {
  const answer = await fetch(path, { cache: "no-cache" });
  if (!answer.ok) throw new Error(`${path} cannot be loaded (${answer.status})`);
  return answer.text();
}

async function start() {
  const run = JSON.parse(await fetchText("data/run.json"));
  const playable = run.videos.filter((row) => row.data);
  const wanted = new URLSearchParams(location.search).get("video") ?? (playable.length === 1 ? playable[0].id : null);
  const row = playable.find(({ id }) => id === wanted);
  document.title = showTurns(row ? `${row.label} - ${run.title}` : run.title);
  document.querySelector("#home").textContent = showTurns(run.title);
  if (row) {
    document.querySelector("nav").hidden = playable.length === 1;
    status.textContent = await openVideo(playable, row, await fetchText(row.data));
  } else {
    showTable(document.querySelector("main"), run);
    status.textContent =
      wanted === null ? run.summary : `There is no video “${wanted.slice(0, 80)}” here. Choose one of the table.`;
  }
}

mountTheme();
start().catch((error) => {
  status.textContent = `This page cannot be shown: ${error.message}. Reload it.`;
});
