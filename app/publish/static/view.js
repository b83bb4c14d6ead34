// One video in the player. This is the page around the player's modules: it gives them the names that Gradio gives on
// the page of the program, without a server, a model or reviews.

import { createButton, createNode, saveLink } from "../player/dom/dom.js";
import { mount } from "../player/main.js";
import { calmText } from "../player/state/stops.js";
import { clockText } from "../player/state/data.js";
import { convertTheta, hasTheta } from "../player/state/policy.js";
import { DECISIONS } from "../player/state/signals.js";

// Returns a JSON file of this folder as text and content. The browser asks the server whether its copy is current.
export async function fetchData(path) {
  const answer = await fetch(path, { cache: "no-cache" }).catch(() => null);
  if (!answer?.ok) throw new Error(`${path} cannot be loaded${answer ? ` (${answer.status})` : ""}: reload the page`);
  const text = await answer.text();
  try {
    return { text, content: JSON.parse(text) };
  } catch {
    throw new Error(`${path} is damaged: publish the folder again`);
  }
}

// The address of a video at its worst moment.
export function linkOf(row) {
  const moment = { ...(row.t !== null && { t: row.t.toFixed(2) }), ...(row.event && { event: row.event }) };
  return `?${new URLSearchParams({ video: row.id, ...moment })}`;
}

// Shows a video from its data, of a `moment` of the story or of the table; returns the player and the status.
export function openVideo(rows, row, { text, content: packed }, moment) {
  const link = new URLSearchParams(location.search);
  if (!link.has("t") && !link.has("event")) history.replaceState(null, "", linkOf(row));
  const markup = document.querySelector("#markup").content.cloneNode(true),
    player = createNode("div", "", markup, { id: "player" }),
    stage = createNode("div", "", [drawVideo(row), player], { id: "stage" });
  document.querySelector("main").append(stage, drawThresholds(packed), drawTiles(packed.tiles), drawTask(packed.task));
  if (!moment) mountNeighbours(rows, row);

  const choices = rows.map(({ id, label: words, num_mistakes: count }) => ({ id, words, about: "", count })),
    show = (found) => player.querySelector(".ss").receivePatch(JSON.stringify({ choices: found }));
  const events = {
    list_choices: ({ part }) => show({ part, found: choices }),
    open_focus: ({ video }) => goBy(rows, row, rows.findIndex(({ id }) => id === video) - rows.indexOf(row)),
    shown: showThresholds,
    export_run: ({ content }) => saveLink(`${row.exports}${content}`, `${row.label}-${content}`),
    step_videos: ({ by }) => goBy(rows, row, by),
  };
  const trigger = (name, detail) => events[name]?.(detail);
  const settings = { video_id: "video", can_run: false, can_review: false, verdicts: [], plotly_url: "plotly.min.js" };
  const mounted = mount({ element: player, trigger, props: { value: text }, settings, server: {}, watch() {} });
  previewLinked(link);
  const status = moment
    ? `${row.id}, ${clockText(packed.duration_s, 0)}. Space plays and pauses.`
    : describe(row, packed, link);
  return { player: mounted, status };
}

// Returns the address of a video in which browsers can seek: without range requests, as on `python -m http.server`,
// they cannot, and the video is loaded whole.
export async function findSource(path) {
  const answer = await fetch(path, { headers: { Range: "bytes=0-0" } });
  if (!answer.ok) throw new Error(`The video cannot be loaded (${answer.status}).`);
  return answer.status === 206 ? path : URL.createObjectURL(await answer.blob());
}

function drawVideo({ video: path, label }) {
  const note = (words) => createNode("p", "no-video", `${words} The timeline plays on its own clock.`);
  if (!path) return createNode("div", "", note("Published without its picture."), { id: "video" });
  const properties = { controls: true, playsInline: true, preload: "auto", ariaLabel: `Video ${label}` },
    video = createNode("video", "", "", properties),
    box = createNode("div", "", video, { id: "video" });
  findSource(path).then(
    (source) => {
      video.src = source;
    },
    (error) => box.replaceChildren(note(error.message)),
  );
  return box;
}

export function drawTiles(tiles) {
  const draw = ({ label, figure, hint }) => {
    const properties = { tabIndex: 0, role: "group", ariaLabel: `${label}: ${figure}. ${hint}`, dataset: { hint } };
    return createNode("div", "score", [createNode("b", "", figure), createNode("span", "", label)], properties);
  };
  return createNode("div", "scores", tiles.map(draw));
}

function drawTask(task) {
  return createNode("details", "task", [
    createNode("summary", "", task.goal ? `Task: ${task.goal}` : "Task"),
    createNode("pre", "", [task.steps, task.user_turns].filter(Boolean).join("\n\n")),
  ]);
}

function preview(values) {
  document.querySelector("#player .ss").preview(values);
  showThresholds();
}

function showThresholds() {
  const { shown } = document.querySelector("#player .ss").player.thresholds,
    values = { ...shown, theta: convertTheta(shown.speak) };
  for (const input of document.querySelectorAll(".threshold input")) {
    const value = values[input.dataset.name];
    if (Number(input.value) !== value) input.value = value;
  }
}

// The sliders of both thresholds, or of theta where the rule of the run has it. The player checks the typed numbers, as
// on the page of the program.
function drawThresholds({ policy, thresholds }) {
  const known = DECISIONS.filter((name) => name in thresholds),
    names = known.length && hasTheta(policy) ? ["theta"] : known,
    title = "Back to the thresholds of the run",
    reset = createButton("", "reset", () => preview(thresholds), { title });
  return createNode("div", "thresholds", [...names.map((name) => drawThreshold(name, thresholds)), reset], {
    role: "group",
    ariaLabel: "Preview of other thresholds",
  });
}

function drawThreshold(name, thresholds) {
  const isTheta = name === "theta",
    words = isTheta ? name : `${name} threshold`,
    hint = "The assistant stays silent while the probability of its silent token reaches theta.";
  const send = ({ target: { value: at } }) =>
    preview(isTheta ? { speak: convertTheta(Number(at)) } : { [name]: Number(at) });
  const value = isTheta ? convertTheta(thresholds.speak) : thresholds[name],
    settings = { min: 0, max: 1, step: "any", value, oninput: send, dataset: { name } };
  const number = createNode("input", "", "", { type: "number", id: `${name}_number`, ...settings }),
    slider = createNode("input", "", "", { type: "range", ariaLabel: `${words}, slider`, ...settings }),
    label = createNode("label", "", words, { htmlFor: number.id });
  return createNode("div", "threshold", [label, slider, number], { title: isTheta ? hint : "" });
}

// Opens the video that is `by` places after this one; there may be none.
function goBy(rows, row, by) {
  const next = rows[rows.indexOf(row) + by];
  if (next) location.href = linkOf(next);
}

// The way to the videos beside this one: each has its own address.
function mountNeighbours(rows, row) {
  const at = rows.indexOf(row);
  for (const [id, by] of Object.entries({ previous: -1, next: 1 }))
    Object.assign(document.querySelector(`#videos_${id}`), {
      disabled: !rows[at + by],
      onclick: () => goBy(rows, row, by),
    });
}

function previewLinked(link) {
  const names = DECISIONS.filter((name) => link.get(name));
  preview(Object.fromEntries(names.map((name) => [name, Number(link.get(name))])));
}

function describe(row, packed, link) {
  const length = `${row.label}, ${clockText(packed.duration_s, 0)}.`;
  if (link.get("run") && link.get("run") !== packed.run)
    return `${length} The link was made from another run of this video.`;
  if (row.failures === null) return `${length} It has no reference.`;
  return row.failures.some(Boolean) ? length : `${length} ${calmText(row.num_low, row.num_later)}.`;
}
