// What if: changes of a run at the playhead, as text of a file of `stepscope run --branch`, and the tree of branches
// that they make, which this window keeps.

import { createButton, createNode, setStatus } from "../dom/dom.js";
import { countText, frameAt, stateAt } from "../state/data.js";
import { canFail } from "../state/stops.js";
import { DECISIONS } from "../state/signals.js";
import { keepInWindow, readKept } from "../state/settings.js";
import { compareFailures } from "./failure_changes.js";

const KEPT = ["name", "changes", "parent", "difference"]; // of a branch

// A reload keeps the branches of the latest runs, by the digest of the run.
function readTree(root) {
  const nodes = readKept("what_if")?.[root];
  return Array.isArray(nodes) ? nodes.filter((one) => KEPT.every((key) => typeof one?.[key] === "string")) : [];
}

function keepTree({ root, nodes }) {
  const { [root]: _, ...others } = readKept("what_if") ?? {};
  keepInWindow("what_if", Object.fromEntries([...Object.entries(others), [root, nodes.slice(-40)]].slice(-5)));
}

const text = (value) => JSON.stringify(value);
const seconds = (value) => Number(value.toFixed(3));
const OF_REST = "  # from here on; with time 0 from the start";

// The kinds of changes: the lines of one at a frame, to be edited, which take their values from the moment.
const KINDS = {
  state: ({ steps, bands }, frame) => {
    const at = steps.findIndex(
        (_, step) => stateAt(bands.reference[step] ?? [], frame) !== stateAt(bands.model[step] ?? [], frame),
      ),
      step = Math.max(0, at);
    const state = ["not_started", "in_progress", "completed"][stateAt(bands.reference[step] ?? [], frame) ?? 2];
    const { id = "S1", name = "" } = steps[step] ?? {},
      words = name.replaceAll(/\s+/g, " ");
    return [`state: {${id}: ${state}}  # ${words}`, "refresh: true  # read now, not in the next prompt"];
  },
  update: (data, frame) => [`updates: [${textsAt(data, frame, "update", ["S1->complete"]).map(text)}]`],
  "no update": () => ["updates: []"],
  message: (data, frame) => [`message: ${text(textsAt(data, frame, "assistant", ["Good."]).at(-1))}`],
  silence: () => ["message: null"],
  ask: () => [`ask: ${text("What is next?")}`],
  freeze: ({ times, reached }, frame) => [`freeze: ${seconds(Math.min(times[frame] + 2, reached))}  # until then`],
  "swap pictures": ({ times }, frame) => [`swap: ${seconds(times[frame + 1] ?? times[frame - 1])}`],
  goal: ({ task }) => [`goal: ${text(task.goal)}${OF_REST}`],
  steps: ({ steps }) => [`steps:${OF_REST}`, ...steps.map(({ id, name }) => `  - ${text(`${id}: ${name}`)}`)],
  thresholds: ({ thresholds }) => [
    `settings:${OF_REST}`,
    ...DECISIONS.map((name) => `  ${name}_threshold: ${thresholds[name] ?? 0.5}`),
  ],
  context: () => ["settings: {context_strategy: drop-all}", "# refresh, drop-all, drop-middle, sink-window or none"],
  prompt: () => [`settings: {system_prompt: ${text("Be brief.")}}${OF_REST}`],
};

function textsAt(data, frame, role, otherwise) {
  const found = data.references.filter((turn) => turn.role === role && turn.frame === frame);
  return found.length ? found.map((turn) => turn.text) : otherwise;
}

// The reason why the shown run cannot be changed; "" if it can. Imported and recorded runs have no model.
function whyNoBranch(player) {
  const { data, receiver } = player;
  if (!data?.times.length) return "There is no run to change: press Run.";
  if (receiver.run?.data === data) return "The run still streams: it can be changed once it ends.";
  if (!data.model)
    return "This run was recorded or imported: its model cannot be run again here, so nothing can be changed.";
  return player.isForeignRun ? "This run was made by a different model, which cannot run again here." : "";
}

export function drawWhatIf(player) {
  const { data, whatIf } = player,
    why = whyNoBranch(player);
  if (why) return player.find("what_if").replaceChildren(createNode("p", "ss-dim", why));
  if (whatIf.run !== data.run) Object.assign(whatIf, { run: data.run, draft: data.branch?.changes ?? "" });
  const rowsOf = () => Math.min(12, Math.max(3, whatIf.draft.split("\n").length));
  const draft = createNode("textarea", "ss-draft", "", {
    value: whatIf.draft,
    rows: rowsOf(),
    spellcheck: false,
    placeholder: "no changes yet: a button above adds one",
    ariaLabel: "Changes as YAML",
    oninput: () => (whatIf.draft = draft.value),
  });
  const add = (name) => {
    const frame = frameAt(data, player.video.time),
      [first, ...lines] = [`time: ${seconds(data.times[frame])}`, ...KINDS[name](data, frame)],
      entry = [`- ${first}`, ...lines.map((line) => `  ${line}`)].join("\n");
    whatIf.draft = draft.value = [whatIf.draft.trimEnd(), entry].filter(Boolean).join("\n");
    draft.rows = rowsOf();
  };
  const copy = () =>
    navigator.clipboard.writeText(whatIf.draft).then(
      () => setStatus(player, "Copied: a window with this video, or stepscope run --branch, takes these changes."),
      () => draft.select(), // the browser forbids the clipboard
    );
  const kinds = Object.keys(KINDS).map((name) => createButton("", name, () => add(name)));
  player
    .find("what_if")
    .replaceChildren(
      createNode("p", "ss-line", [createNode("span", "ss-dim", "at the playhead"), ...kinds]),
      draft,
      createNode("p", "ss-line", [
        createButton("ss-branch-run", "Run from here", () => runBranch(player)),
        createButton("", "copy YAML", copy),
      ]),
      drawTree(player),
    );
}

function runBranch(player) {
  if (!player.whatIf.draft.trim()) return setStatus(player, "There is no change yet: add one, or paste a file.");
  player.trigger("what_if", { changes: player.whatIf.draft, is_new: true });
}

// Keeps the branch that is shown, with the failures that it fixes and breaks in the run below it.
export function keepBranch(player) {
  const { data, whatIf } = player,
    root = data?.branch?.root ?? data?.run;
  if (!data || (whatIf.root !== root && data.is_finished)) Object.assign(whatIf, { root, nodes: readTree(root) });
  if (!data?.branch || !data.is_finished || !data.events.length) return;
  const { name, changes } = data.branch,
    known = whatIf.nodes.find((node) => node.changes === changes),
    parent = data.other?.branch?.changes ?? "",
    isJudged = canFail(data) && data.other !== null && canFail(data.other);
  const count = (verb, records) => records.filter((record) => record.verb === verb).length,
    records = isJudged && !known ? compareFailures(data.other, data) : [],
    difference = isJudged
      ? `−${countText(count("fixed", records), "failure")}, +${count("broken", records)}`
      : "not scored";
  if (!known) whatIf.nodes.push({ name, changes, parent, difference });
  keepTree(whatIf);
}

// The tree of the branches: the run itself, and below each the branches of it.
function drawTree(player) {
  const { data, whatIf } = player,
    shown = data.branch?.changes ?? "";
  const draw = (node) => {
    const show = () => player.trigger("what_if", { changes: node.changes, beside: node.parent, is_new: false });
    const { name = "" } = whatIf.nodes.find(({ changes }) => changes === node.parent) ?? {},
      own = name && node.name.startsWith(`${name}; `) ? node.name.slice(name.length + 2) : node.name;
    const children = whatIf.nodes.filter(({ parent }) => parent === node.changes).map(draw);
    return createNode("li", "", [
      createButton("ss-branch", own, show, { ariaCurrent: String(node.changes === shown) }),
      createNode("span", "ss-dim", ` ${node.difference}`),
      children.length > 0 && createNode("ul", "", children),
    ]);
  };
  const known = new Set(["", ...whatIf.nodes.map(({ changes }) => changes)]),
    lost = whatIf.nodes.filter(({ parent }) => !known.has(parent)).map(draw);
  const root = draw({ name: "the run itself", changes: "", parent: "", difference: rootWords(player) });
  return createNode("ul", "ss-branches", [root, ...lost], { ariaLabel: "Branches" });
}

function rootWords({ data }) {
  const run = data.branch ? (data.other?.branch ? null : data.other) : data;
  return run && canFail(run) ? countText(run.failures.length, "failure") : "";
}
