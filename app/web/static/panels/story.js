// The story: up to ten moments with captions, in order, kept in this browser. *Publish* in Batch writes it as a player,
// or as Markdown.

import { createNode } from "../dom/dom.js";
import { keepSetting, setStatus } from "../dom/status.js";
import { seek } from "../playback/playhead.js";
import { selectedEvent } from "../playback/selection.js";
import { clockText } from "../state/data.js";
import { readSetting } from "../state/settings.js";
import { reveal } from "../timeline/chart.js";

const MAX_MOMENTS = 10;

function readStory() {
  try {
    const { title, moments } = JSON.parse(readSetting("story"));
    if (typeof title === "string" && Array.isArray(moments)) return { title, moments };
  } catch {} // none yet
  return { title: "", moments: [] };
}

// Changes the story as the browser has it now: another window may have changed it.
function changeStory(player, change) {
  const story = readStory();
  change(story);
  keepSetting(player, "story", JSON.stringify(story));
}

export function addMoment(player) {
  const { data } = player,
    { moments } = readStory();
  if (!data.kept_run)
    return setStatus(player, "This run is not kept, so no story can have it: start it in Batch, then add its moments.");
  if (moments.length >= MAX_MOMENTS)
    return setStatus(player, `A story has at most ${MAX_MOMENTS} moments: remove one in the tab Story.`);
  const moment = {
      run: data.kept_run,
      video: data.video_id,
      time_s: Number(player.video.time.toFixed(3)),
      caption: "",
    },
    event = selectedEvent(player);
  if (event) moment.event = event;
  changeStory(player, (story) => story.moments.push(moment));
  setStatus(player, `Moment ${moments.length + 1} of the story. T leads to the tab Story, for captions and Publish.`);
  if (player.tab === "story") drawStory(player);
}

export function drawStory(player) {
  const story = readStory(),
    title = createNode("input"),
    list = createNode("ol"),
    line = createNode("p", "ss-line");
  Object.assign(title, { value: story.title, maxLength: 120, placeholder: "title of the story", autocomplete: "off" });
  title.setAttribute("aria-label", "Title of the story");
  title.addEventListener("input", () =>
    changeStory(player, (now) => {
      now.title = title.value;
    }),
  );
  list.append(...story.moments.map((moment, at) => drawMoment(player, moment, at, story.moments.length)));
  const buttons = [
    ["add this moment (*)", () => addMoment(player), story.moments.length < MAX_MOMENTS],
    ["publish…", openPublish, story.moments.length > 0],
    ["story.json", () => saveStory(), story.moments.length > 0],
  ];
  line.append(
    ...buttons.map(([words, act, isPossible]) => {
      const button = createNode("button", "", words);
      Object.assign(button, { type: "button", disabled: !isPossible });
      button.addEventListener("click", act);
      return button;
    }),
  );
  const empty = "No moments yet. Go to one, and press * or the button. A story has up to ten, of any saved runs.";
  player
    .find("story")
    .replaceChildren(title, ...(story.moments.length ? [list] : [createNode("p", "ss-dim", empty)]), line);
}

function drawMoment(player, moment, at, number) {
  const item = createNode("li"),
    line = createNode("p", "ss-line"),
    place = createNode("button", "ss-moment", `${clockText(moment.time_s)} ${moment.video}`),
    caption = createNode("textarea");
  place.type = "button";
  place.title = `Go to this moment of the run ${moment.run}`;
  place.addEventListener("click", () => openMoment(player, moment));
  Object.assign(caption, { value: moment.caption, maxLength: 500, rows: 2, placeholder: "caption" });
  caption.setAttribute("aria-label", `Caption of moment ${at + 1}`);
  caption.addEventListener("input", () =>
    changeStory(player, ({ moments }) => {
      if (moments[at]) moments[at].caption = caption.value;
    }),
  );
  const move = (to) => changeStory(player, ({ moments }) => moments.splice(to, 0, ...moments.splice(at, 1)));
  line.append(place);
  for (const [sign, words, act, isPossible] of [
    ["▴", "Earlier in the story", () => move(at - 1), at > 0],
    ["▾", "Later in the story", () => move(at + 1), at < number - 1],
    ["✕", "Remove from the story", () => changeStory(player, ({ moments }) => moments.splice(at, 1)), true],
  ]) {
    const button = createNode("button", "", sign);
    Object.assign(button, { type: "button", title: words, disabled: !isPossible });
    button.setAttribute("aria-label", `${words}: moment ${at + 1}`);
    button.addEventListener("click", () => {
      act();
      drawStory(player);
    });
    line.append(button);
  }
  item.append(line, caption);
  return item;
}

// Seeks if the moment is of the shown run; otherwise the page opens it.
function openMoment(player, moment) {
  if (player.data?.kept_run === moment.run && player.data.video_id === moment.video) {
    player.video.pause();
    seek(player, moment.time_s);
    return reveal(player, moment.time_s);
  }
  const { run: saved, video, time_s: t, event } = moment;
  location.search = new URLSearchParams({ saved, video, t, ...(event ? { event } : {}) });
}

// Opens *Publish* of the tab Batch with the story chosen; Gradio draws the tab when it is opened first.
function openPublish() {
  // the last of this name: on a narrow page it is in the menu of further tabs; the first one only measures the width
  [...document.querySelectorAll("#rooms > .tab-wrapper button")]
    .findLast((tab) => tab.textContent.trim() === "Batch")
    ?.click();
  const end = performance.now() + 10_000;
  const open = () => {
    const button = document.querySelector("#publish_story");
    if (button) button.click();
    else if (performance.now() < end) requestAnimationFrame(open);
  };
  open();
}

function saveStory() {
  const link = createNode("a"),
    url = URL.createObjectURL(new Blob([`${JSON.stringify(readStory(), null, 1)}\n`], { type: "application/json" }));
  Object.assign(link, { href: url, download: "story.json" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function mountStory(player) {
  for (const name of ["[data-tab=story]", "[data-do=addMoment]"]) player.root.querySelector(name).hidden = false;
  window.addEventListener(
    "storage",
    ({ key }) => key === "stepscope:story" && player.tab === "story" && drawStory(player),
    {
      signal: player.listeners.signal,
    },
  );
}
