// The published page: the story and the table of videos, or one video in the player. The address chooses:
// ?video=ID&t=SECONDS, or ?moment=NUMBER of the story.

import { showTurns } from "../player/dom/dom.js";
import { mountTheme } from "../player/dom/theme.js";
import { approachMoment } from "../player/clock/playhead.js";
import { findMoment, mountStory, showStory } from "./story.js";
import { showTable } from "./table.js";
import { fetchData, openVideo } from "./view.js";

const status = document.querySelector("#status");

async function start() {
  const run = (await fetchData("data/run.json")).content;
  const playable = run.videos.filter((row) => row.data),
    link = new URLSearchParams(location.search),
    moment = findMoment(run.story, link.get("moment"));
  const wanted = link.get("video") ?? (playable.length === 1 && !run.story ? playable[0].id : null);
  const row = moment?.row ?? playable.find(({ id }) => id === wanted);
  document.title = showTurns(row ? `${row.label ?? row.id} - ${run.title}` : run.title);
  document.querySelector("#home").textContent = showTurns(run.title);
  if (row) {
    document.querySelector("#videos").hidden = Boolean(moment) || playable.length === 1;
    if (moment) mountStory(document.querySelector("main"), run.story, moment);
    const opened = openVideo(playable, row, await fetchData(row.data), moment);
    status.textContent = opened.status;
    if (moment) play(opened.player);
  } else {
    if (run.story) showStory(document.querySelector("main"), run.story);
    showTable(document.querySelector("main"), run);
    status.textContent =
      wanted === null ? run.summary : `There is no video “${wanted.slice(0, 80)}” here. Choose one of the table.`;
  }
}

// Plays up to the moment as soon as the video has its first pictures. A browser that wants a click before it leaves the
// video paused.
function play(player) {
  const video = document.querySelector("#video video"),
    start = () => approachMoment(player);
  if (!video || video.readyState >= 2) start();
  else video.addEventListener("canplay", start, { once: true });
}

mountTheme();
start().catch((error) => {
  status.textContent = `This page cannot be shown: ${error.message}.`;
});
