// The commands of buttons and keys.

import { undoOrRedo } from "./review/actions.js";
import { copyLink } from "./address.js";
import { requestPaint, reveal, setView, zoom } from "./timeline/chart.js";
import { addTurn, deleteTurn, editText, nudge } from "./review/corrections.js";
import { CAUSES, clockText, frameAt, SIGNS } from "./state/data.js";
import { createNode, find, returnFocus } from "./dom/dom.js";
import { stepFailure, toggleOnlyKind } from "./playback/failure_stops.js";
import { beginSpan } from "./review/spans.js";
import { LANES } from "./lanes/table.js";
import { openInspection } from "./panels/inspection.js";
import { updatePlayhead } from "./playback/playback.js";
import { redrawPlayhead, seek } from "./playback/playhead.js";
import { toggleSpeech } from "./playback/speech.js";
import { giveVerdict } from "./review/review.js";
import { goToUnreviewed, splitPair, stepEvent } from "./playback/selection.js";
import { host, listeners, shown, state, ui } from "./state/state.js";
import { setStatus } from "./dom/status.js";
import { nextTab, openTab } from "./panels/tabs.js";
import { startTour } from "./panels/tour.js";

const KEYS = [
  ["Space K", "play", "play or pause"],
  ["ArrowLeft ArrowRight", "previousFrame nextFrame", "previous, next frame the model saw"],
  [", .", "previousPicture nextPicture", "previous, next frame of the video"],
  ["J L", "back forward", "5 s back, forward"],
  ["Home End", "toStart toEnd", "start, end"],
  ["< >", "slower faster", "slower, faster"],
  [
    "P N 8",
    "previousFailure nextFailure onlyThisKind",
    "previous, next failure of the chosen kinds; choose only the kind of this one, or the others again",
  ],
  ["I O", "regionStart regionEnd", "begin, end the region here (or drag with Shift)"],
  ["R F", "loop clearRegion", "loop the region, or end the loop and keep the region; clear the region"],
  ["+ - 0", "zoomIn zoomOut fit", "zoom in, out, whole video (or Ctrl and the wheel)"],
  ["H", "inspect", "prompt and tokens of this frame; Esc closes them"],
  ["/", "ask", "ask about this moment"],
  [";", "speech", "speak the model's responses during playback, or be silent again"],
  ["C", "nextCaptions", "captions: model, reference, none"],
  ["T", "nextTab", "transcript, review, or precision and recall"],
  ["Y", "copyLink", "copy a link to this moment"],
  ["?", "help", "this list"],
];
const REVIEW_KEYS = [
  ["1 2 3 4 5 6 7", "verdict1 verdict2 verdict3 verdict4 verdict5 verdict6 verdict7", "verdict: "],
  ["Q W U", "previousEvent nextEvent nextUnreviewed", "previous, next event, next without your verdict"],
  ["S", "splitPair", "judge a matched pair as two events, or as one again"],
  ["G M", "tags note", "tags, note of the event; Enter or Esc ends, Shift and Enter is a new line"],
  ["Z X", "undo redo", "undo, redo your last action"],
  [
    "E D A",
    "editText deleteTurn addTurn",
    "correct the reference: its text, delete or bring back, add at the playhead",
  ],
  ["9", "markSpan", "hold while the video plays: mark the reply span of the turn inside it, or of a new turn"],
  ["V B", "earlier later", "correct the reference: one frame earlier, later"],
];
// Where E has no text to edit, the keys that follow it at the pace of typing are a text, and must change nothing.
const TYPING_MS = 700,
  CHANGES = /^(verdict.|undo|redo|deleteTurn|addTurn|markSpan|earlier|later)$/;
let typedAtMs = -Infinity;
let commandByKey = {}; // by the key in lower case

// The key bindings in the order of the help, without those of reviews and of the model where the page has none.
function keyRows() {
  const reviewKeys = REVIEW_KEYS.map(([keys, names, words]) => [
    keys,
    names,
    words.startsWith("verdict") ? words + host.settings.verdicts.join(", ") : words,
  ]);
  const keys = KEYS.filter(([, names]) => !["inspect", "ask", "speech"].includes(names) || host.settings.can_run);
  return host.settings.can_review ? [...keys.slice(0, -1), ...reviewKeys, keys.at(-1)] : keys;
}

function bindKeys() {
  return Object.fromEntries(
    keyRows().flatMap(([keys, names]) => {
      const [all, found] = [keys.split(" "), names.split(" ")];
      return all.map((key, number) => [
        key === "Space" ? " " : key.toLowerCase(),
        found[Math.min(number, found.length - 1)],
      ]);
    }),
  );
}

function stepFrame(by) {
  ui.video.pause();
  const frame = Math.min(state.data.times.length - 1, Math.max(0, frameAt(state.data, ui.video.time) + by));
  if (frame >= 0) seek(state.data.times[frame] + 1e-3);
  reveal(ui.video.time);
}

function stepPicture(by) {
  ui.video.pause();
  seek((Math.floor(ui.video.time * state.data.video_fps + 1e-3) + by + 0.01) / state.data.video_fps);
}

const commands = {
  play: () => (ui.video.isPaused ? ui.video.play() : ui.video.pause(), redrawPlayhead()),
  previousFrame: () => stepFrame(-1),
  nextFrame: () => stepFrame(1),
  previousPicture: () => stepPicture(-1),
  nextPicture: () => stepPicture(1),
  back: () => seek(ui.video.time - 5),
  forward: () => seek(ui.video.time + 5),
  toStart: () => seek(state.data.begin_s),
  toEnd: () => seek(state.data.duration_s),
  slower: () => changeRate(-1),
  faster: () => changeRate(1),
  previousFailure: () => stepFailure(-1),
  nextFailure: () => stepFailure(1),
  onlyThisKind: toggleOnlyKind,
  regionStart: () => setRegion(ui.video.time, shown.region?.[1] ?? state.data.duration_s),
  regionEnd: () => setRegion(shown.region?.[0] ?? 0, ui.video.time),
  loop: () => setLoop(!shown.isLooping),
  clearRegion,
  zoomIn: () => zoom(0.5),
  zoomOut: () => zoom(2),
  fit: () => setView(state.data.begin_s, state.data.duration_s),
  nextCaptions: () => {
    const box = find("captions");
    box.selectedIndex = (box.selectedIndex + 1) % 3;
    setCaptions(box.value);
  },
  nextTab: () => openTab(nextTab()),
  copyLink,
  inspect: openInspection,
  ask: focusQuestion,
  speech: toggleSpeech,
  help: showHelp,
  previousEvent: () => stepEvent(-1),
  nextEvent: () => stepEvent(1),
  nextUnreviewed: () => goToUnreviewed(),
  splitPair,
  tags: () => {
    openTab("review");
    find("tags").focus();
  },
  note: () => {
    openTab("review");
    find("note").focus();
  },
  undo: () => undoOrRedo("undo"),
  redo: () => undoOrRedo("redo"),
  editText,
  deleteTurn,
  addTurn,
  markSpan: beginSpan,
  earlier: () => nudge(-1),
  later: () => nudge(1),
};

function runCommand(name) {
  if (!state.data && name !== "help") return setStatus("Nothing to play yet: press Run.");
  updatePlayhead();
  setStatus("");
  commands[name]();
}

function changeRate(by) {
  const box = find("rate");
  box.selectedIndex = Math.min(box.options.length - 1, Math.max(0, box.selectedIndex + by));
  ui.video.setRate(Number(box.value));
  setStatus(`Speed ${box.value}×`);
}

export function setRegion(from, to) {
  shown.region = [Math.min(from, to), Math.max(from, to)];
  setStatus(`Region ${clockText(shown.region[0])} to ${clockText(shown.region[1])}`);
  requestPaint();
}

function setLoop(isOn) {
  if (isOn && !shown.region) setRegion(ui.timeline.view.start, ui.timeline.view.end);
  shown.isLooping = isOn;
  find("bar").querySelector("[data-do=loop]").setAttribute("aria-pressed", isOn);
  setStatus(
    isOn
      ? `Loop ${clockText(shown.region[0])} to ${clockText(shown.region[1])}`
      : "No loop. R loops the region again, F clears it.",
  );
  requestPaint();
}

function clearRegion() {
  if (!shown.region) return setStatus("There is no region: I and O set its ends.");
  setLoop(false);
  shown.region = null;
  setStatus("The region is cleared.");
}

function setCaptions(which) {
  ui.video.caption(state.data, which);
  setStatus(which === "off" ? "No captions" : `Captions: ${which}`);
}

function focusQuestion() {
  const box = document.querySelector("#question textarea, #question input");
  ui.video.pause();
  if (box?.offsetParent) {
    box.focus({ preventScroll: true });
    box.scrollIntoView({ block: "nearest" }); // no further than needed: the answer is about the video above
  } else if (box) setStatus("This run was made by a different model, which cannot be asked here.");
  else setStatus("This page answers no questions.");
}

// Gradio's controls of the video take every key for a click: Tab past them would start playback. Only Enter and Space
// may press them; all other keys go to the player's own commands.
function keepFromVideo(event) {
  if ([" ", "Enter"].includes(event.key) || !event.target.closest?.("#video")) return;
  event.stopPropagation();
  if (event.key !== "Tab" && !document.dispatchEvent(new KeyboardEvent("keydown", event))) event.preventDefault();
}

function showHelp() {
  const dialog = find("help");
  if (dialog.open) return dialog.close();
  dialog.onclose = () => ui.canvas.focus({ preventScroll: true }); // not the button again, which Space would press
  const table = createNode("table");
  const names = { ArrowLeft: "←", ArrowRight: "→" };
  for (const [keys, , words] of keyRows()) {
    const row = table.insertRow();
    const cell = row.insertCell();
    cell.append(...keys.split(" ").map((key) => createNode("kbd", "", names[key] ?? key)));
    row.insertCell().textContent = words;
  }
  const close = createNode("button", "", "close (Esc)");
  close.addEventListener("click", () => dialog.close());
  const tour = createNode("button", "ss-start-tour", "tour of the page");
  tour.addEventListener("click", () => {
    dialog.onclose = startTour;
    dialog.close();
  });
  const signs = createNode("table");
  const meanings = [...Object.entries(SIGNS), ...LANES.flatMap((lane) => lane.legend)];
  for (const [sign, meaning] of meanings)
    signs.insertRow().append(createNode("td", "ss-sign", sign), createNode("td", "", meaning));
  const causes = createNode("table");
  for (const cause in CAUSES)
    causes.insertRow().append(createNode("td", "ss-sign", cause), createNode("td", "", CAUSES[cause]));
  const bands =
    "Steps: a thin line is not started, half a bar in progress, a whole bar completed; above the reference, " +
    "below the model.";
  dialog.replaceChildren(
    createNode("h3", "", "Keys"),
    table,
    createNode("h3", "", "Signs"),
    signs,
    createNode("p", "ss-dim", bands),
    createNode("h3", "", "Causes, where the manifest names one"),
    causes,
    ...(host.settings.can_run ? [tour] : []),
    close,
  );
  dialog.showModal();
  dialog.scrollTop = 0;
}

// Controls that reserve keys while they have the focus: all keys (null) or a list.
const RESERVED_KEYS = [
  ["input:not([type=range], [type=checkbox]), textarea, select, [contenteditable=true]", null],
  [
    "[type=range], .ss-handle",
    ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"],
  ],
  ["button, a, summary, [role=button], [role=tab], [type=checkbox]", [" "]],
];

export function mountCommands() {
  host.settings.verdicts.forEach((verdict, number) => {
    commands[`verdict${number + 1}`] = () => giveVerdict(verdict);
  });
  commandByKey = bindKeys();
  ui.root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do], [data-tab]");
    if (button && event.detail) returnFocus(button);
    if (button?.dataset.tab) openTab(button.dataset.tab);
    else if (button) runCommand(button.dataset.do);
  });
  window.addEventListener("keydown", keepFromVideo, { capture: true, signal: listeners.signal });
  find("rate").addEventListener("change", (event) => ui.video.setRate(Number(event.target.value)));
  find("captions").addEventListener("change", (event) => {
    if (state.data) setCaptions(event.target.value);
  });
  document.addEventListener(
    "keydown",
    (event) => {
      const dialog = ui.root.querySelector("dialog[open]");
      if (event.ctrlKey || event.metaKey || event.altKey || (dialog && (dialog !== find("help") || event.key !== "?")))
        return;
      const target = event.composedPath()[0];
      if (RESERVED_KEYS.some(([control, keys]) => target.matches?.(control) && (!keys || keys.includes(event.key))))
        return;
      const name = commandByKey[event.key.toLowerCase()],
        isTyped = event.timeStamp - typedAtMs < TYPING_MS;
      if (isTyped) typedAtMs = event.timeStamp;
      if (!name || (!ui.root.offsetParent && !ui.canvas.offsetParent)) return;
      event.preventDefault();
      if (isTyped && CHANGES.test(name))
        return setStatus("Nothing is edited here: keys that are typed right after E change nothing.");
      runCommand(name);
      if (name === "editText" && document.activeElement !== find("edited")) typedAtMs = event.timeStamp;
    },
    { signal: listeners.signal },
  );
}
