// The story: up to ten moments with picture, caption, mistake and evidence, kept in this browser. *Publish* in Batch
// writes it as a player, or as Markdown.

import { createButton, createNode, keepSetting, saveBlob, setStatus } from "../dom/dom.js";
import { approachMoment, seek } from "../clock/playhead.js";
import { selectedEvent } from "../playback/selection.js";
import { clockText } from "../state/data.js";
import { readKept } from "../state/settings.js";
import { sentenceOf } from "../state/stops.js";
import { reveal } from "../timeline/chart.js";

const MAX_MOMENTS = 10;

function readStory() {
  const { title, moments } = readKept("story", "localStorage") ?? {};
  return typeof title === "string" && Array.isArray(moments) ? { title, moments } : { title: "", moments: [] };
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
  const time_s = Number(player.video.time.toFixed(3)),
    event = selectedEvent(player),
    stop = player.stopIndex === null ? null : data.stops[player.stopIndex],
    sentence = stop ? sentenceOf(player, stop) : "",
    evidence = player.shown.decision?.words ?? "",
    texts = { caption: "", sentence, evidence },
    moment = { run: data.kept_run, video: data.video_id, time_s, ...texts, ...(event && { event }) };
  changeStory(player, (story) => story.moments.push(moment));
  setStatus(player, `Moment ${moments.length + 1} of the story. T leads to the tab Story, for captions and Publish.`);
  if (player.tab === "story") drawStory(player);
}

export function drawStory(player) {
  const { title, moments } = readStory();
  const onTitle = ({ target }) =>
    changeStory(player, (story) => {
      story.title = target.value;
    });
  const heading = createNode("input", "", "", {
    value: title,
    maxLength: 120,
    placeholder: "title of the story",
    autocomplete: "off",
    ariaLabel: "Title of the story",
    oninput: onTitle,
  });
  const empty = "No moments yet. Go to one, and press * or the button. A story has up to ten, of any saved runs.";
  const list = moments.map((moment, at) => drawMoment(player, moment, at, moments.length));
  const isFull = moments.length >= MAX_MOMENTS,
    disabled = moments.length === 0;
  const line = createNode("p", "ss-line", [
    createButton("", "add this moment (*)", () => addMoment(player), { disabled: isFull }),
    createButton("", "publish…", () => player.trigger("publish_story"), { disabled }),
    createButton("", "story.json", saveStory, { disabled }),
  ]);
  player
    .find("story")
    .replaceChildren(heading, disabled ? createNode("p", "ss-dim", empty) : createNode("ol", "", list), line);
}

function drawMoment(player, moment, at, number) {
  const caption = createNode("textarea", "", "", {
    value: moment.caption,
    maxLength: 500,
    rows: 2,
    placeholder: "caption",
    ariaLabel: `Caption of moment ${at + 1}`,
    oninput: () =>
      changeStory(player, ({ moments }) => {
        if (moments[at]) moments[at].caption = caption.value;
      }),
  });
  // moves the moment to another place, or removes it
  const change = (sign, title, place, isPossible) => {
    const move = ({ moments }) => moments.splice(place, 0, ...moments.splice(at, 1)),
      remove = ({ moments }) => moments.splice(at, 1);
    const act = () => {
      changeStory(player, place === null ? remove : move);
      drawStory(player);
    };
    return createButton("", sign, act, { title, ariaLabel: `${title}: moment ${at + 1}`, disabled: !isPossible });
  };
  const title = `Play the 3 s before this moment of the run ${moment.run}`,
    words = `${clockText(moment.time_s)} ${moment.video}`,
    place = new URLSearchParams({ run: moment.run, video: moment.video, time: moment.time_s }),
    open = () => openMoment(player, moment);
  const picture = createNode("img", "", "", {
    src: new URL(`${player.settings.picture_url}?${place}`, document.baseURI).href,
    alt: "",
    loading: "lazy",
    onclick: open,
    onerror: ({ target }) => target.remove(), // a run that is gone
  });
  const line = createNode("p", "ss-line", [
    createButton("ss-moment", words, open, { title }),
    change("▴", "Earlier in the story", at - 1, at > 0),
    change("▾", "Later in the story", at + 1, at < number - 1),
    change("✕", "Remove from the story", null, true),
  ]);
  const texts = [
    moment.sentence && createNode("p", "", moment.sentence),
    moment.evidence && createNode("p", "ss-dim", moment.evidence),
  ];
  return createNode("li", "", [picture, line, ...texts, caption]);
}

// Plays up to the moment if it is of the shown run; otherwise the page opens it.
function openMoment(player, moment) {
  if (player.data?.kept_run === moment.run && player.data.video_id === moment.video) {
    player.video.pause();
    seek(player, moment.time_s);
    reveal(player, moment.time_s);
    return approachMoment(player);
  }
  const { run: saved, video, time_s: t, event } = moment;
  location.search = new URLSearchParams({ saved, video, t, ...(event ? { event } : {}) });
}

function saveStory() {
  saveBlob(new Blob([`${JSON.stringify(readStory(), null, 1)}\n`], { type: "application/json" }), "story.json");
}

export function mountStory(player) {
  for (const name of ["[data-tab=what_if]", "[data-tab=story]", "[data-do=addMoment]"])
    player.root.querySelector(name).hidden = !player.settings.can_run;
  player.listen(window, "storage", ({ key }) => {
    if (key === "stepscope:story" && player.tab === "story") drawStory(player);
  });
}
