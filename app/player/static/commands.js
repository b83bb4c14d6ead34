// The commands of buttons and keys.

import { finishVideo, undoOrRedo } from "./review/actions.js";
import { copyLink } from "./address.js";
import { layout, reveal, setView, zoom } from "./timeline/chart.js";
import { addTurn, deleteTurn, editText, nudge } from "./review/corrections.js";
import { frameAt, referenceWord, SIGNS } from "./state/data.js";
import { readSetting } from "./state/settings.js";
import { createButton, createNode, createTable, keepSetting, keyOf, setStatus } from "./dom/dom.js";
import { chooseFold, isFoldOpen } from "./dom/fold.js";
import { findKind, stepStop, stepVideo, toggleOnlyKind } from "./playback/failure_stops.js";
import { focusTags, giveVerdict, setReviewing } from "./review/review.js";
import { beginSpan } from "./review/spans.js";
import { LANES } from "./lanes/table.js";
import { openInspection } from "./panels/inspection.js";
import { updatePlayhead } from "./loop.js";
import { PICTURE_S, redrawPlayhead, seek } from "./clock/playhead.js";
import { clearRegion, setLoop, setRegion } from "./playback/region.js";
import { toggleSpeech } from "./clock/speech.js";
import { goToUnreviewed, splitPair, stepEvent } from "./playback/selection.js";
import { addMoment } from "./panels/story.js";
import { nextTab, openTab, openWhatIf } from "./panels/tabs.js";
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
    "previous, next mistake (while reviewing: failure) of the chosen kinds, or moment of a search or to settle; " +
      "choose only this kind, or the others again",
  ],
  ["( )", "previousVideo nextVideo", "previous, next video of the run, in the order of its table"],
  ["I O", "regionStart regionEnd", "begin, end the region here (or drag with Shift)"],
  ["R F", "loop clearRegion", "loop the region, or end the loop and keep the region; clear the region"],
  ["+ - 0", "zoomIn zoomOut fit", "zoom in, out, whole video (or Ctrl and the wheel)"],
  ["H", "inspect", "prompt and tokens of this frame; Esc closes them"],
  ["/", "ask", "ask about this moment"],
  [";", "speech", "speak the model's responses during playback, or be silent again"],
  ["%", "whatIf", "what if: change the run at the playhead, and run it from here"],
  ["C", "nextCaptions", "captions: model, reference, none"],
  ["T", "nextTab", "transcript, review, precision and recall, or story"],
  ["Y", "copyLink", "copy a link to this moment"],
  ["*", "addMoment", "add this moment to the story"],
  ["#", "details", "show ids, signs and probabilities, or words alone"],
  ["?", "help", "this list"],
];
const REVIEW_KEYS = [
  ["1 2 3 4 5 6 7", "verdict1 verdict2 verdict3 verdict4 verdict5 verdict6 verdict7", "verdict: "],
  ["Q W U", "previousEvent nextEvent nextUnreviewed", "previous, next event, next without your verdict"],
  ["S", "splitPair", "judge a matched pair as two events, or as one again"],
  [
    "G M",
    "tags note",
    "tags (of the split's vocabulary by their keys, G again to type), note of the event; Enter or Esc ends, Shift " +
      "and Enter is a new line",
  ],
  ["Z X", "undo redo", "undo, redo your last action"],
  [
    "E D A",
    "editText deleteTurn addTurn",
    "correct the reference: its text, delete or bring back, add at the playhead",
  ],
  ["!", "finishVideo", "done with this video of your queue: open the next one"],
  ["9", "markSpan", "hold while the video plays: mark the reply span of the turn inside it, or of a new turn"],
  ["V B", "earlier later", "correct the reference: one frame, or one onset of the sound, earlier, later"],
];
const TYPING_MS = 700; // where E has no text to edit, letters that follow it at this pace are a text, and do nothing

// The key bindings in the order of the help, without those of reviews and of the model where the page has none.
function keyRows(player) {
  const { can_run, can_review, verdicts } = player.settings,
    [[verdictKeys, verdictNames, words], ...otherKeys] = REVIEW_KEYS,
    ofModel = ["inspect", "ask", "speech", "whatIf", "addMoment"];
  const keys = KEYS.filter(([, names]) => can_run || !ofModel.includes(names)),
    reviewKeys = [[verdictKeys, verdictNames, words + verdicts.join(", ")], ...otherKeys];
  return can_review ? [...keys.slice(0, -1), ...reviewKeys, keys.at(-1)] : keys;
}

function bindKeys(player) {
  const commandByKey = { " ": "play" };
  for (const [keys, names] of keyRows(player)) {
    const found = names.split(" ");
    for (const [number, key] of keys.split(" ").entries())
      commandByKey[key.toLowerCase()] = found[number] ?? found.at(-1);
  }
  return commandByKey;
}

function stepFrame(player, by) {
  player.video.pause();
  const frame = Math.min(player.data.times.length - 1, Math.max(0, frameAt(player.data, player.video.time) + by));
  if (frame >= 0) seek(player, player.data.times[frame] + PICTURE_S);
  reveal(player, player.video.time);
}

function stepPicture(player, by) {
  player.video.pause();
  seek(player, (Math.floor(player.video.time * player.data.video_fps + 1e-3) + by + 0.01) / player.data.video_fps);
}

const commands = {
  play: (player) => (player.video.isPaused ? player.video.play() : player.video.pause(), redrawPlayhead(player)),
  previousFrame: (player) => stepFrame(player, -1),
  nextFrame: (player) => stepFrame(player, 1),
  previousPicture: (player) => stepPicture(player, -1),
  nextPicture: (player) => stepPicture(player, 1),
  back: (player) => seek(player, player.video.time - 5),
  forward: (player) => seek(player, player.video.time + 5),
  toStart: (player) => seek(player, player.data.begin_s),
  toEnd: (player) => seek(player, player.data.duration_s),
  slower: (player) => changeRate(player, -1),
  faster: (player) => changeRate(player, 1),
  previousFailure: (player) => stepStop(player, -1),
  nextFailure: (player) => stepStop(player, 1),
  onlyThisKind: toggleOnlyKind,
  findKind,
  previousVideo: (player) => stepVideo(player, -1),
  nextVideo: (player) => stepVideo(player, 1),
  regionStart: (player) => setRegion(player, player.video.time, player.shown.region?.[1] ?? player.data.duration_s),
  regionEnd: (player) => setRegion(player, player.shown.region?.[0] ?? 0, player.video.time),
  loop: (player) => setLoop(player, !player.shown.isLooping),
  clearRegion,
  zoomIn: (player) => zoom(player, 0.5),
  zoomOut: (player) => zoom(player, 2),
  fit: (player) => setView(player, player.data.begin_s, player.data.duration_s),
  nextCaptions: (player) => {
    const box = player.find("captions");
    box.selectedIndex = (box.selectedIndex + 1) % 3;
    setCaptions(player, box.value);
  },
  nextTab: (player) => openTab(player, nextTab(player)),
  copyLink,
  addMoment,
  inspect: openInspection,
  ask: focusQuestion,
  speech: toggleSpeech,
  whatIf: openWhatIf,
  help: showHelp,
  previousEvent: (player) => stepEvent(player, -1),
  nextEvent: (player) => stepEvent(player, 1),
  nextUnreviewed: (player) => goToUnreviewed(player),
  splitPair,
  tags: focusTags,
  note: (player) => {
    openTab(player, "review");
    player.find("note").focus();
  },
  undo: (player) => undoOrRedo(player, "undo"),
  redo: (player) => undoOrRedo(player, "redo"),
  editText,
  deleteTurn,
  addTurn,
  markSpan: beginSpan,
  finishVideo,
  showEvidence: (player) => toggleSheet(player, "now"),
  showTranscript: (player) => toggleSheet(player, "side"),
  details: (player) => setDetailed(player, !player.isDetailed),
  reviewing: (player) => setReviewing(player, !player.isReviewing),
  earlier: (player) => nudge(player, -1),
  later: (player) => nudge(player, 1),
};

function runCommand(player, name) {
  const [, verdict] = name.match(/^verdict(\d)$/) ?? [];
  if (!player.data && name !== "help") return setStatus(player, "Nothing to play yet: press Run.");
  updatePlayhead(player);
  if (name !== "details") setStatus(player, "");
  if (verdict) giveVerdict(player, player.settings.verdicts[verdict - 1]);
  else commands[name](player);
}

// Opens a panel over the foot of a narrow page, or closes it.
function toggleSheet(player, name) {
  const { dataset } = player.root;
  dataset.sheet = dataset.sheet === name ? "" : name;
  for (const [sheet, command] of Object.entries({ now: "showEvidence", side: "showTranscript" }))
    player.root.querySelector(`[data-do=${command}]`).ariaExpanded = dataset.sheet === sheet;
}

// Shows ids, signs and probabilities, or words alone.
function setDetailed(player, isOn) {
  keepSetting(player, "details", isOn ? "yes" : "no");
  drawDetails(player, isOn);
  if (player.data) layout(player);
  redrawPlayhead(player);
}

function drawDetails(player, isOn) {
  player.isDetailed = player.timeline.isDetailed = isOn;
  player.root.classList.toggle("ss-details", isOn);
  player.root.querySelector("[data-do=details]").ariaPressed = isOn;
}

function changeRate(player, by) {
  const box = player.find("rate");
  box.selectedIndex = Math.min(box.options.length - 1, Math.max(0, box.selectedIndex + by));
  player.video.setRate(Number(box.value));
  setStatus(player, `Speed ${box.value}×`);
}

function setCaptions(player, which) {
  player.video.caption(player.data, which);
  const name = which === "reference" ? referenceWord(player.data) : which;
  setStatus(player, which === "off" ? "No captions" : `Captions: ${name}`);
}

function focusQuestion(player) {
  chooseFold("ask", "open");
  const box = document.querySelector("#question textarea, #question input");
  player.video.pause();
  if (box?.offsetParent) {
    box.focus({ preventScroll: true });
    box.scrollIntoView({ block: "nearest" }); // no further than needed: the answer is about the video above
  } else if (box) setStatus(player, "This run was made by a different model: press Run before you ask.");
  else setStatus(player, "This page answers no questions.");
}

const isAskOpen = () => isFoldOpen("ask") && document.querySelector("#ask")?.getClientRects().length > 0;

// The button of the panel Ask opens it for typing; Escape closes it.
function mountAsk(player) {
  player.listen(document, "click", ({ target }) => {
    if (target.closest?.("#ask_fold button") && isAskOpen()) focusQuestion(player);
  });
  player.listen(document, "keydown", ({ key, target }) => {
    if (key !== "Escape" || !isAskOpen() || player.tour || document.querySelector("dialog[open]")) return;
    if (target.matches?.("input, textarea, select") && !target.closest("#ask")) return; // it leaves its own box
    document.querySelector("#ask_fold button").click();
    player.focus();
  });
}

// Keys that belong to an input method, such as the Enter that ends a composition (229: Safari), are for its text alone.
// Gradio's controls of the video take every key for a click: Tab past them would start playback. Only Enter and Space
// may press them; all other keys go to the player's own commands.
function keepFromVideo(event) {
  if (event.isComposing || event.keyCode === 229) return event.stopImmediatePropagation();
  if ([" ", "Enter"].includes(event.key) || !event.target.closest?.("#video")) return;
  event.stopPropagation();
  if (event.key !== "Tab" && !document.dispatchEvent(new KeyboardEvent("keydown", event))) event.preventDefault();
}

function showHelp(player) {
  const dialog = player.find("help");
  if (dialog.open) return dialog.close();
  dialog.onclose = () => player.focus(); // not the button again, which Space would press
  const names = { ArrowLeft: "←", ArrowRight: "→" };
  const keys = keyRows(player).map(([row, , words]) => [
    row.split(" ").map((key) => createNode("kbd", "", names[key] ?? key)),
    words,
  ]);
  const openTour = () => {
    dialog.onclose = () => startTour(player);
    dialog.close();
  };
  const bands =
    "Steps: a thin line is not started, half a bar in progress, a whole bar completed; above the reference, " +
    "below the model.";
  dialog.replaceChildren(
    createNode("h3", "", "Keys"),
    createTable("", keys),
    createNode("h3", "", "Signs"),
    createTable("ss-signs", [...Object.entries(SIGNS), ...LANES.flatMap((lane) => lane.legend)]),
    createNode("p", "ss-dim", bands),
    ...(player.settings.can_run ? [createButton("ss-start-tour", "tour of the page", openTour)] : []),
    createButton("", "close (Esc)", () => dialog.close()),
  );
  dialog.showModal();
  dialog.scrollTop = 0;
}

// Controls that reserve keys while they have the focus: all keys (null) or a list.
const RESERVED_KEYS = [
  ["input:not([type=range], [type=checkbox]), textarea, select, [contenteditable]:not([contenteditable=false])", null],
  [
    "[type=range], .ss-handle",
    ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"],
  ],
  ["[role=tab]", ["ArrowLeft", "ArrowRight"]],
  ["button, a, summary, [role=button], [role=tab], [type=checkbox]", [" "]],
];

export function mountCommands(player) {
  const commandByKey = bindKeys(player),
    changing = REVIEW_KEYS.filter(([keys]) => keys !== "Q W U"), // these only navigate
    ofReview = changing.flatMap(([, names]) => names.split(" "));
  drawDetails(player, readSetting("details") === "yes");
  let typedAtMs = -Infinity;
  player.root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do], [data-tab]");
    if (button && event.detail) player.returnFocus(button);
    if (button?.dataset.tab) openTab(player, button.dataset.tab);
    else if (button) runCommand(player, button.dataset.do);
  });
  player.root.addEventListener("keydown", ({ key, target }) => {
    const by = target.matches("[data-tab]") && { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (!by) return;
    openTab(player, nextTab(player, by));
    player.root.querySelector(`[data-tab=${player.tab}]`).focus();
  });
  player.listen(window, "keydown", keepFromVideo, { capture: true });
  if (!player.settings.hint) mountAsk(player);
  player.listen("rate", "change", ({ target }) => player.video.setRate(Number(target.value)));
  player.listen("captions", "change", ({ target }) => player.data && setCaptions(player, target.value));
  player.listen(document, "keydown", (event) => {
    const dialog = document.querySelector("dialog[open]");
    if (dialog && (dialog !== player.find("help") || event.key !== "?")) return;
    const { sheet } = player.root.dataset;
    if (event.key === "Escape" && sheet) return toggleSheet(player, sheet);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0];
    if (RESERVED_KEYS.some(([control, keys]) => target.matches?.(control) && (!keys || keys.includes(event.key))))
      return;
    const name = commandByKey[keyOf(event)],
      isTyped = event.timeStamp - typedAtMs < TYPING_MS;
    if (isTyped) typedAtMs = event.timeStamp;
    if (!name || (!player.root.offsetParent && !player.canvas.offsetParent)) return;
    event.preventDefault();
    const isLetter = event.key.length === 1;
    if (isTyped && isLetter)
      return setStatus(player, "Nothing is edited here: keys that are typed right after E change nothing.");
    if (isLetter && event.key !== " " && name !== "ask" && isAskOpen())
      return setStatus(player, "Letters do nothing behind the open panel Ask: / is its question, Esc closes it.");
    if (ofReview.includes(name) && !player.isReviewing)
      return setStatus(player, `${event.key.toUpperCase()} is a key of reviewing: ✎ review turns it on.`);
    runCommand(player, name);
    if (name === "editText" && document.activeElement !== player.find("edited")) typedAtMs = event.timeStamp;
  });
}
