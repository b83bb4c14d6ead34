// One video in the player. This is the page around the player's modules: it gives them the names that Gradio gives on
// the page of the program, without a server, a model or reviews.

import { clockText, countText } from "../player/state/data.js";
import { createNode } from "../player/dom/dom.js";
import { mount } from "../player/main.js";
import { drawTiles } from "./scores.js";
import { drawThresholds, showThresholds } from "./thresholds.js";

// The address of a video at its worst moment.
export function linkOf(row) {
  const values = {
    video: row.id,
    ...(row.t === null ? {} : { t: row.t.toFixed(2) }),
    ...(row.event ? { event: row.event } : {}),
  };
  return `?${new URLSearchParams(values)}`;
}

// Shows a video from its data as text, of a `moment` of the story or of the table; returns the status.
export async function openVideo(rows, row, text, moment) {
  const link = new URLSearchParams(location.search),
    isMoment = link.has("t") || link.has("event");
  if (!isMoment) history.replaceState(null, "", linkOf(row));
  const packed = JSON.parse(text),
    stage = createNode("div"),
    player = createNode("div"),
    main = document.querySelector("main");
  stage.id = "stage";
  player.id = "player";
  player.append(document.querySelector("#markup").content.cloneNode(true));
  stage.append(drawVideo(row), player);
  main.append(stage, drawThresholds(packed), drawTiles(packed.tiles), drawTask(packed.task));
  if (!moment) mountChoice(rows, row);

  const trigger = (name, detail) => {
    if (name === "shown") showThresholds();
    if (name === "export_run") saveFile(`${row.exports}${detail.content}`, `${row.label}-${detail.content}`);
  };
  const settings = { video_id: "video", can_run: false, can_review: false, verdicts: [], plotly_url: "plotly.min.js" };
  mount({ element: player, trigger, props: { value: text }, settings, server: {}, watch() {} });
  previewLinked(link);
  return moment
    ? `${row.id}, ${clockText(packed.duration_s, 0)}. Space plays and pauses.`
    : describe(row, packed, link, isMoment);
}

// Returns the address of a video in which browsers can seek: without range requests, as on `python -m http.server`,
// they cannot, and the video is loaded whole.
async function findSource(path) {
  const answer = await fetch(path, { headers: { Range: "bytes=0-0" } });
  if (!answer.ok) throw new Error(`The video cannot be loaded (${answer.status}).`);
  return answer.status === 206 ? path : URL.createObjectURL(await answer.blob());
}

function drawVideo(row) {
  const box = createNode("div");
  box.id = "video";
  if (!row.video) {
    box.append(createNode("p", "no-video", "Published without its picture. The timeline plays on its own clock."));
    return box;
  }
  const video = createNode("video");
  Object.assign(video, { controls: true, playsInline: true, preload: "auto" });
  findSource(row.video).then(
    (source) => {
      video.src = source;
    },
    (error) => {
      box.replaceChildren(createNode("p", "no-video", `${error.message} The timeline plays on its own clock.`));
    },
  );
  video.setAttribute("aria-label", `Video ${row.label}`);
  box.append(video);
  return box;
}

function drawTask(task) {
  const box = createNode("details", "task");
  box.append(
    createNode("summary", "", task.goal ? `Task: ${task.goal}` : "Task"),
    createNode("pre", "", [task.steps, task.user_turns].filter(Boolean).join("\n\n")),
  );
  return box;
}

// The choice of another video: each has its own address.
function mountChoice(rows, row) {
  const box = document.querySelector("#chosen"),
    at = rows.indexOf(row);
  box.append(
    ...rows.map(({ label, failures }, number) => {
      const num = failures?.reduce((all, one) => all + one, 0);
      const option = createNode("option", "", num === undefined ? label : `${label} (${countText(num, "failure")})`);
      option.value = number;
      return option;
    }),
  );
  box.value = at;
  box.addEventListener("change", () => {
    location.href = linkOf(rows[box.value]);
  });
  for (const [id, by] of [
    ["previous", -1],
    ["next", 1],
  ]) {
    const button = document.querySelector(`#videos_${id}`);
    button.disabled = !rows[at + by];
    button.addEventListener("click", () => {
      location.href = linkOf(rows[at + by]);
    });
  }
}

// Previews the thresholds of a link.
function previewLinked(link) {
  const values = Object.fromEntries(
    ["speak", "update"].filter((name) => link.get(name)).map((name) => [name, Number(link.get(name))]),
  );
  document.dispatchEvent(new CustomEvent("stepscope:threshold", { detail: values }));
  showThresholds();
}

function describe(row, packed, link, isMoment) {
  const length = `${row.label}, ${clockText(packed.duration_s, 0)}.`;
  if (link.get("run") && link.get("run") !== packed.run)
    return `${length} The link was made from another run of this video.`;
  if (row.failures === null) return `${length} It has no reference.`;
  if (row.t === null) return `${length} It has no failures.`;
  const isWorst = !isMoment || link.get("event") === row.event;
  return (
    `${length} ` +
    `${isWorst ? "This is its worst moment; press N for the next failure." : "Press N for the next failure."}`
  );
}

function saveFile(path, name) {
  const link = createNode("a");
  Object.assign(link, { href: path, download: name });
  link.click();
}
