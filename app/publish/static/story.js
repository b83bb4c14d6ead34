// The story: moments with captions, in order. The table page lists them; each plays in the player, under its caption.

import { createNode } from "../player/dom/dom.js";
import { clockText, countText } from "../player/state/data.js";

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

// Shows the moments as cards; a click plays from the moment.
export function showStory(main, story) {
  const list = createNode("ol", "story");
  for (const moment of story.moments) {
    const item = createNode("li"),
      link = createNode("a");
    link.href = linkOfMoment(story, moment);
    if (moment.picture) {
      const picture = createNode("img");
      Object.assign(picture, { src: moment.picture, alt: "", loading: "lazy" });
      link.append(picture);
    } else link.append(createNode("span", "dim", "No picture"));
    link.append(createNode("b", "", moment.caption || placeOf(story, moment)));
    item.append(link);
    if (moment.caption) item.append(createNode("span", "dim", placeOf(story, moment)));
    list.append(item);
  }
  main.append(createNode("h2", "", `Story: ${countText(story.moments.length, "moment")}`), list);
}

// Shows the caption of a moment above the player, with the way to the others.
export function mountStory(main, story, moment) {
  const box = createNode("section", "told"),
    at = story.moments.indexOf(moment),
    caption = createNode("p", "", moment.caption);
  box.setAttribute("aria-label", "Story");
  box.append(
    drawStep(story, at - 1, "◂", "Previous moment"),
    createNode("span", "dim", `${at + 1} of ${story.moments.length}`),
    drawStep(story, at + 1, "▸", "Next moment"),
    caption,
    createNode("span", "dim", placeOf(story, moment)),
  );
  main.append(box);
}

function drawStep(story, at, sign, title) {
  const moment = story.moments[at],
    link = createNode(moment ? "a" : "span", moment ? "step" : "step dim", sign);
  link.title = title;
  if (moment) {
    link.href = linkOfMoment(story, moment);
    link.setAttribute("aria-label", title);
  } else link.setAttribute("aria-hidden", "true");
  return link;
}
