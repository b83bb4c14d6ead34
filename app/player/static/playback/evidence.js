// The evidence for a decision on request, and its patches over the picture.

import { createButton, createNode, setStatus } from "../dom/dom.js";
import { clockText, timeOf } from "../state/data.js";
import { highest } from "../lanes/evidence.js";
import { redrawPlayhead, seek } from "../clock/playhead.js";
import { layout, requestPaint } from "../timeline/chart.js";

const SVG = "http://www.w3.org/2000/svg";
const GRID = 8;

// The evidence for the decision at a frame, else the one whose patches are of its picture; null without any.
export function evidenceAt({ evidence = [] }, frame) {
  const found = evidence.find((one) => one.frame === frame);
  return found ?? evidence.find(({ patches }) => patches?.frame === frame) ?? null;
}

// The button that requests the evidence for the decision at a frame; null where the model cannot run.
export function evidenceButton(player, frame) {
  const { data, receiver, settings } = player,
    isStreaming = receiver.run?.data === data;
  if (!settings.can_run || settings.hint || player.isForeignRun || isStreaming || !data.model || !data.times.length)
    return null;
  const ask = () => {
    player.trigger("explain_frame", { frame });
    setStatus(player, `Finding the evidence for the decision at ${clockText(timeOf(data, frame))}…`);
  };
  const title = "Which pictures and lines of the prompt move the model's decision at this frame, beside baselines";
  return createButton("", "find evidence", ask, { title });
}

export function receiveEvidence(player, { run, decisions, error, is_whole: isWhole }) {
  if (player.data?.run !== run) return;
  setStatus(player, error ?? (isWhole ? "" : "Of the latest pictures; the others, the prompt and patches follow…"));
  if (error) return;
  player.data.evidence = decisions;
  layout(player); // its lane is new
  redrawPlayhead(player);
}

// The sentence of the evidence, what it does not prove, and a button for each series, of the lane and of the patches.
export function evidenceParts(player) {
  const { decision } = player.shown;
  if (!decision) return [];
  const buttons = Object.keys(decision.series).map((name) => {
    const choose = () => {
      player.shown.evidence = name;
      for (const button of buttons) button.ariaPressed = button.textContent === name;
      requestPaint(player);
      drawPatches(player);
    };
    return createButton("ss-series", name, choose, { ariaPressed: name === player.shown.evidence });
  });
  const choice = createNode("span", "", buttons, { role: "group", ariaLabel: "Values of the evidence" }),
    limit = createNode("span", "ss-dim", decision.no_proof);
  return [createNode("p", "ss-line", [decision.words, choice, ...legend(player), limit])];
}

// The colours of the evidence with their words.
export function supportSigns(words) {
  return ["speak", "mismatched"].flatMap((name, at) => [createNode("i", `ss-sign ss-${name}`), words[at]]);
}

function legend(player) {
  const { data, shown } = player,
    { patches } = shown.decision;
  if (!patches) return [];
  const at = timeOf(data, patches.frame),
    strongest = highest(patches, "log-odds").toPrecision(2);
  return [
    createButton("", `over the picture of ${clockText(at)}`, () => seek(player, at + 1e-3)),
    createNode("span", "", supportSigns(["supports it ", `opposes it, to ±${strongest}`])),
  ];
}

// A translucent grid over the video while its picture is the one with patches.
export function drawPatches(player) {
  const { patches } = player.shown.decision ?? {},
    host = document.querySelector(`#${player.settings.video_id}`),
    values = patches?.frame === player.shownFrame && patches.series[player.shown.evidence];
  host?.querySelector(".ss-patches")?.remove();
  const { videoWidth: width, videoHeight: height } = player.video.video ?? {};
  if (!host || !values) return;
  if (!width) return player.video.video?.addEventListener("loadedmetadata", () => drawPatches(player), { once: true });
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "ss-patches");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`); // with bars at its sides, as the video has them
  const most = highest(patches, player.shown.evidence);
  for (const [number, value] of values.entries()) {
    const rect = document.createElementNS(SVG, "rect"),
      place = { x: (number % GRID) / GRID, y: Math.floor(number / GRID) / GRID };
    const shape = { x: place.x * width, y: place.y * height, width: width / GRID, height: height / GRID };
    for (const [name, length] of Object.entries(shape)) rect.setAttribute(name, length);
    rect.style.fill = `var(--ss-${value < 0 ? "mismatched" : "speak"})`;
    rect.style.fillOpacity = (0.8 * Math.abs(value)) / most;
    svg.append(rect);
  }
  host.append(svg);
}
