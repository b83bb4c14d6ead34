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
  const items = story.moments.map((moment) => {
    const { picture: src, caption } = moment,
      none = createNode("span", "dim", "No picture"),
      picture = src ? createNode("img", "", "", { src, alt: "", loading: "lazy" }) : none,
      words = createNode("b", "", caption || placeOf(story, moment));
    return createNode("li", "", [
      createNode("a", "", [picture, words], { href: linkOfMoment(story, moment) }),
      caption && createNode("span", "dim", placeOf(story, moment)),
    ]);
  });
  main.append(createNode("h2", "", `Story: ${countText(items.length, "moment")}`), createNode("ol", "story", items));
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
