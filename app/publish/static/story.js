// The story to scroll: moments with picture, caption, mistake and evidence. Each plays in its place up to the moment,
// or in the player, under its caption.

import { createButton, createNode } from "../player/dom/dom.js";
import { clockText } from "../player/state/data.js";
import { findSource } from "./view.js";

const BEFORE_S = 3;

// Returns the moment of a number, from 1, as text; undefined for any other text.
export function findMoment(story, number) {
  return /^\d{1,2}$/.test(number ?? "") ? story?.moments[Number(number) - 1] : undefined;
}

function linkOfMoment(story, moment) {
  const values = { moment: story.moments.indexOf(moment) + 1, video: moment.video, t: moment.time_s.toFixed(2) };
  return `?${new URLSearchParams(moment.event ? { ...values, event: moment.event } : values)}`;
}

function placeOf(story, moment) {
  const run = story.has_runs ? `, run ${moment.run}` : "";
  return `${moment.video}, ${clockText(moment.time_s)}${run}`;
}

export function showStory(main, story) {
  const items = story.moments.map((moment) => {
    const { caption, sentence, evidence } = moment,
      href = linkOfMoment(story, moment);
    return createNode("li", "", [
      drawPicture(moment),
      caption && createNode("b", "", caption),
      sentence && createNode("p", "", sentence),
      evidence && createNode("p", "dim", evidence),
      createNode("a", "", `${placeOf(story, moment)}: open in the player`, { href }),
    ]);
  });
  main.append(createNode("h2", "", story.title || "Story"), createNode("ol", "story", items));
}

// The picture of a moment; a click plays the seconds before it in its place, and stops there.
function drawPicture({ picture: src, row, time_s: at }) {
  const picture = src && createNode("img", "", "", { src, alt: "", loading: "lazy" });
  if (!row.video) return picture || createNode("span", "dim", "No picture");
  const box = createNode("div", ""),
    play = createButton("still", [picture, "▶ the 3 s before"], async () => {
      const video = createNode("video", "", "", { controls: true, playsInline: true, poster: src ?? "" });
      box.replaceChildren(video);
      video.src = await findSource(row.video);
      video.currentTime = Math.max(0, at - BEFORE_S);
      video.ontimeupdate = () => {
        if (video.currentTime < at) return;
        video.pause();
        video.ontimeupdate = null;
        video.currentTime = at;
      };
      await video.play();
    });
  box.append(play);
  return box;
}

// Shows the caption of a moment above the player, with the way to the others.
export function mountStory(main, story, moment) {
  const at = story.moments.indexOf(moment);
  const parts = [
    drawStep(story, at - 1, "◂", "Previous moment"),
    createNode("span", "dim", `${at + 1} of ${story.moments.length}`),
    drawStep(story, at + 1, "▸", "Next moment"),
    createNode("p", "", moment.caption),
    createNode("span", "dim", placeOf(story, moment)),
  ];
  main.append(createNode("section", "told", parts, { ariaLabel: "Story" }));
}

function drawStep(story, at, sign, title) {
  const moment = story.moments[at];
  return moment
    ? createNode("a", "step", sign, { title, ariaLabel: title, href: linkOfMoment(story, moment) })
    : createNode("span", "step dim", sign, { title, ariaHidden: true });
}
