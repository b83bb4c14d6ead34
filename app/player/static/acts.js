// What buttons and keys do.

const KEYS = [
  ["Space K", "play", "play or pause"],
  ["ArrowLeft ArrowRight", "previousFrame nextFrame", "previous, next frame the model saw"],
  [", .", "previousPicture nextPicture", "previous, next frame of the video"],
  ["J L", "back forward", "5 s back, forward"],
  ["Home End", "toStart toEnd", "start, end"],
  ["< >", "slower faster", "slower, faster"],
  ["P N", "previousFailure nextFailure", "previous, next failure of the chosen kinds"],
  ["I O", "regionStart regionEnd", "begin, end the region here (or drag with Shift)"],
  ["R F", "loop clearRegion", "loop the region, or end the loop and keep the region; clear the region"],
  ["+ - 0", "zoomIn zoomOut fit", "zoom in, out, whole video (or Ctrl and the wheel)"],
  ["H", "inspect", "prompt and tokens of this frame; Esc closes them"],
  ["C", "nextCaptions", "captions: model, reference, none"],
  ["T", "nextTab", "transcript, review, or precision and recall"],
  ["Y", "copyLink", "copy a link to this moment"],
  ["?", "help", "this list"],
];
const REVIEW_KEYS = [
  ["1 2 3 4 5 6 7", "verdict1 verdict2 verdict3 verdict4 verdict5 verdict6 verdict7", `verdict: ${props.verdicts.join(", ")}`],
  ["Q W U", "previousEvent nextEvent nextUnreviewed", "previous, next event, next without your verdict"],
  ["S", "splitPair", "judge a matched pair as two events, or as one again"],
  ["G M", "tags note", "tags, note of the event; Enter or Esc ends, Shift and Enter is a new line"],
  ["Z X", "undo redo", "undo, redo what you said"],
  ["E D A", "editText deleteTurn addTurn", "correct the reference: its text, delete or bring back, add at the playhead"],
  ["V B", "earlier later", "correct the reference: one frame earlier, later"],
];
if (props.can_review) KEYS.splice(-1, 0, ...REVIEW_KEYS);
const DO_OF_KEY = Object.fromEntries(KEYS.flatMap(([keys, names]) => {
  const [all, acts] = [keys.split(" "), names.split(" ")];
  return all.map((key, number) => [key === "Space" ? " " : key.toLowerCase(), acts[Math.min(number, acts.length - 1)]]);
}));

function stepFrame(by) {
  screen.pause();
  const frame = Math.min(data.times.length - 1, Math.max(0, frameAt(data, screen.time) + by));
  if (frame >= 0) seek(data.times[frame] + 1e-3);
  reveal(screen.time);
}

function stepPicture(by) {
  screen.pause();
  seek((Math.floor(screen.time * data.video_fps + 1e-3) + by + 0.01) / data.video_fps);
}

let isSaidOfJudgement = false;

// Writes the message line; a message about failures or events is gone with the judgement that it speaks of.
function say(words, isOfJudgement = false) {
  find("said").textContent = words;
  isSaidOfJudgement = isOfJudgement;
}

const acts = {
  play: () => (screen.isPaused ? screen.play() : screen.pause(), drawAgain()),
  previousFrame: () => stepFrame(-1),
  nextFrame: () => stepFrame(1),
  previousPicture: () => stepPicture(-1),
  nextPicture: () => stepPicture(1),
  back: () => seek(screen.time - 5),
  forward: () => seek(screen.time + 5),
  toStart: () => seek(0),
  toEnd: () => seek(data.duration_s),
  slower: () => changeRate(-1),
  faster: () => changeRate(1),
  previousFailure: () => stepFailure(-1),
  nextFailure: () => stepFailure(1),
  regionStart: () => setRegion(screen.time, shown.region?.[1] ?? data.duration_s),
  regionEnd: () => setRegion(shown.region?.[0] ?? 0, screen.time),
  loop: () => setLoop(!shown.isLooping),
  clearRegion,
  zoomIn: () => zoom(0.5),
  zoomOut: () => zoom(2),
  fit: () => show(0, data.duration_s),
  nextCaptions: () => { const box = find("captions"); box.selectedIndex = (box.selectedIndex + 1) % 3; setCaptions(box.value); },
  nextTab: () => openTab(TABS[(TABS.indexOf(tab) + 1) % TABS.length]),
  copyLink,
  inspect: openInspection,
  help: showHelp,
  ...Object.fromEntries(props.verdicts.map((verdict, number) => [`verdict${number + 1}`, () => giveVerdict(verdict)])),
  previousEvent: () => stepEvent(-1),
  nextEvent: () => stepEvent(1),
  nextUnreviewed: () => goToUnreviewed(),
  splitPair,
  tags: () => { openTab("review"); find("tags").focus(); },
  note: () => { openTab("review"); find("note").focus(); },
  undo: () => takeBack("undo"),
  redo: () => takeBack("redo"),
  editText,
  deleteTurn,
  addTurn,
  earlier: () => nudge(-1),
  later: () => nudge(1),
};

function act(name) {
  if (!data && name !== "help") return say("Nothing to play yet: press Run.");
  say("");
  acts[name]();
}

function changeRate(by) {
  const box = find("rate");
  box.selectedIndex = Math.min(box.options.length - 1, Math.max(0, box.selectedIndex + by));
  screen.setRate(Number(box.value));
  say(`Speed ${box.value}×`);
}

function setRegion(from, to) {
  shown.region = [Math.min(from, to), Math.max(from, to)];
  say(`Region ${clockText(shown.region[0])} to ${clockText(shown.region[1])}`);
  askPaint();
}

function setLoop(isOn) {
  if (isOn && !shown.region) setRegion(lanes.view.start, lanes.view.end);
  shown.isLooping = isOn;
  find("bar").querySelector("[data-do=loop]").setAttribute("aria-pressed", isOn);
  say(isOn ? `Loop ${clockText(shown.region[0])} to ${clockText(shown.region[1])}` : "No loop. R loops the region again, F clears it.");
  askPaint();
}

function clearRegion() {
  if (!shown.region) return say("There is no region: I and O set its ends.");
  setLoop(false);
  shown.region = null;
  say("The region is cleared.");
}

function setCaptions(which) {
  screen.caption(data, which);
  say(which === "off" ? "No captions" : `Captions: ${which}`);
}

const TABS = props.can_review ? ["rows", "review", "curves"] : ["rows", "curves"];

function openTab(name) {
  tab = name;
  for (const button of root.querySelectorAll("[data-tab]")) {
    button.setAttribute("aria-selected", button.dataset.tab === name);
    button.tabIndex = button.dataset.tab === name ? 0 : -1;
  }
  for (const panel of ["rows", "review", "curves"]) find(panel).hidden = name !== panel;
  if (data) layOut();
  drawReview();
  if (name === "curves" && data) drawCurves(find("curves"), data, shown);
}

function linkedMoment() {
  const link = new URL(location.pathname, location.origin);
  const values = { ...data.link, run: data.run, t: screen.time.toFixed(2), ...data.thresholds };
  for (const key in values) link.searchParams.set(key, values[key]);
  return link.href;
}

async function copyLink() {
  if (!data.link) return say("No link: it can lead only to uploads, and to bundled videos with the task that belongs to them.");
  const link = linkedMoment();
  try {
    await navigator.clipboard.writeText(link);
    say(data.link.upload ? "Link copied. It works as long as this server has the upload." : "Link copied.");
  } catch {
    say(`Copy this: ${link}`); // the browser forbids the clipboard
  }
}

function openLinkedMoment() {
  const link = new URLSearchParams(location.search);
  const time = secondsOf(link.get("t") ?? "");
  if ((link.get("upload") ?? link.get("video")) === data.video_id && time > 0) { seek(time); reveal(time); }
}

function showHelp() {
  const dialog = find("help");
  if (dialog.open) return dialog.close();
  dialog.onclose = () => canvas.focus({ preventScroll: true }); // not the button again, which Space would press
  const table = node("table");
  const names = { ArrowLeft: "←", ArrowRight: "→" };
  for (const [keys, , words] of KEYS) {
    const row = table.insertRow();
    const cell = row.insertCell();
    cell.append(...keys.split(" ").map((key) => node("kbd", "", names[key] ?? key)));
    row.insertCell().textContent = words;
  }
  const close = node("button", "", "close (Esc)");
  close.addEventListener("click", () => dialog.close());
  const signs = node("table");
  for (const sign in SIGNS) signs.insertRow().append(node("td", "ss-sign", sign), node("td", "", SIGNS[sign]));
  const causes = node("table");
  for (const cause in CAUSES) causes.insertRow().append(node("td", "ss-sign", cause), node("td", "", CAUSES[cause]));
  const bands = "Steps: a thin line is not started, half a bar in progress, a whole bar completed; above the reference, below the model.";
  dialog.replaceChildren(node("h3", "", "Keys"), table, node("h3", "", "Signs"), signs, node("p", "ss-dim", bands), node("h3", "", "Causes, where the manifest names one"), causes, close);
  dialog.showModal();
  dialog.scrollTop = 0;
}

// Controls that keep keys for themselves while they have the focus: all of them, or those that they use.
const OWN_KEYS = [
  ["input:not([type=range], [type=checkbox]), textarea, select, [contenteditable=true]", null],
  ["[type=range]", ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"]],
  ["button, a, summary, [role=button], [role=tab], [type=checkbox]", [" "]],
];

root.addEventListener("click", (event) => {
  const button = event.target.closest("[data-do], [data-tab]");
  if (button && event.detail) takeKeysFrom(button);
  if (button?.dataset.tab) openTab(button.dataset.tab);
  else if (button) act(button.dataset.do);
});
find("rate").addEventListener("change", (event) => screen.setRate(Number(event.target.value)));
find("captions").addEventListener("change", (event) => { if (data) setCaptions(event.target.value); });
document.addEventListener("keydown", (event) => {
  const dialog = root.querySelector("dialog[open]");
  if (event.ctrlKey || event.metaKey || event.altKey || dialog && (dialog !== find("help") || event.key !== "?")) return;
  const target = event.composedPath()[0];
  if (OWN_KEYS.some(([control, keys]) => target.matches?.(control) && (!keys || keys.includes(event.key)))) return;
  const name = DO_OF_KEY[event.key.toLowerCase()];
  if (!name || !root.offsetParent && !canvas.offsetParent) return;
  event.preventDefault();
  act(name);
}, { signal: listeners.signal });
