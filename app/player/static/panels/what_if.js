// What if: changes of a run at the playhead, as text of a file of `stepscope run --branch`, and the tree of branches
// that they make, which this window keeps.

import { createButton, createNode, setStatus } from "../dom/dom.js";
import { countText, frameAt, stateAt } from "../state/data.js";
import { canFail } from "../state/stops.js";
import { hasSignal } from "../state/policy.js";
import { DECISIONS } from "../state/signals.js";
import { compareFailures } from "./failure_changes.js";

const STATES = ["not_started", "in_progress", "completed"];
const CONTEXTS = ["refresh", "drop-all", "drop-middle", "sink-window", "summarize-and-drop", "none"];
const WHERE = ["from here", "from the start"];
const text = (value) => JSON.stringify(value);
const number = (value) => String(Number(value));

// The kinds of changes: their words, the fields for (data, frame), each with its label, its value or choices, and the
// lines of the change by the values of the fields.
const KINDS = [
  {
    words: "set a step's state",
    fields: ({ steps, bands }, frame) => [
      ["step", steps.map(({ id }) => id)],
      ["state", STATES, STATES[Math.min(2, stateAt(bands.model[0] ?? [], frame) + 1)]],
      ["read", ["at the next prompt", "now, in a new context"]],
    ],
    lines: ([step, state, when]) => [
      `state: {${step}: ${state}}`,
      ...(when.startsWith("now") ? ["refresh: true"] : []),
    ],
  },
  {
    words: "write updates",
    fields: (data, frame) => [["updates", referenceTexts(data, frame, "update").join(", ") || "S1->complete"]],
    lines: ([updates]) => [`updates: [${updates.split(",").map((update) => text(update.trim()))}]`],
  },
  { words: "delete the updates", lines: () => ["updates: []"] },
  {
    words: "write a message",
    fields: (data, frame) => [["message", referenceTexts(data, frame, "assistant").at(-1) ?? ""]],
    lines: ([message]) => [`message: ${text(message)}`],
  },
  { words: "delete the message", lines: () => ["message: null"] },
  { words: "ask", fields: () => [["question", "What is next?"]], lines: ([question]) => [`ask: ${text(question)}`] },
  {
    words: "freeze the picture",
    fields: (data, frame) => [["until, s", Math.min(data.times[frame] + 2, data.reached).toFixed(1)]],
    lines: ([until]) => [`freeze: ${number(until)}`],
  },
  {
    words: "swap two pictures",
    fields: (data, frame) => [["with that of, s", (data.times[frame + 1] ?? data.times[frame - 1] ?? 0).toFixed(1)]],
    lines: ([other]) => [`swap: ${number(other)}`],
  },
  {
    words: "another goal",
    fields: ({ task }) => [WHERE, ["goal", task.goal]],
    lines: ([, goal]) => [`goal: ${text(goal)}`],
  },
  {
    words: "other words or order of the steps",
    fields: ({ steps }) => [WHERE, ["steps", steps.map(({ id, name }) => `${id}: ${name}`).join("\n")]],
    lines: ([, steps]) => ["steps:", ...listLines(steps).map((step) => `  - ${text(step)}`)],
  },
  {
    words: "thresholds",
    fields: ({ thresholds, policy }) => [
      WHERE,
      ...DECISIONS.filter((name) => hasSignal(policy, name)).map((name) => [name, String(thresholds[name] ?? 0.5)]),
    ],
    lines: ([, ...values], { policy }) => {
      const names = DECISIONS.filter((name) => hasSignal(policy, name));
      return [`settings: {${names.map((name, at) => `${name}_threshold: ${number(values[at])}`).join(", ")}}`];
    },
  },
  {
    words: "context strategy",
    fields: () => [WHERE, ["strategy", CONTEXTS]],
    lines: ([, strategy]) => [`settings: {context_strategy: ${strategy}}`],
  },
  {
    words: "first line of the prompt",
    fields: () => [WHERE, ["system prompt", "Be brief."]],
    lines: ([, prompt]) => [`settings: {system_prompt: ${text(prompt)}}`],
  },
];

function listLines(words) {
  return words.split("\n").filter((line) => line.trim());
}

function referenceTexts(data, frame, role) {
  return data.references.filter((turn) => turn.role === role && turn.frame === frame).map((turn) => turn.text);
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
    panel = player.find("what_if"),
    why = whyNoBranch(player);
  if (why) return panel.replaceChildren(createNode("p", "ss-dim", why));
  if (whatIf.run !== data.run) Object.assign(whatIf, { run: data.run, draft: data.branch?.changes ?? "" });
  const draft = createNode("textarea", "ss-changes-text", "", {
    value: whatIf.draft,
    rows: Math.min(12, Math.max(4, whatIf.draft.split("\n").length)),
    spellcheck: false,
    placeholder: "no changes yet; a file of stepscope run --branch can be pasted here",
    ariaLabel: "Changes as YAML",
    oninput: ({ target }) => (whatIf.draft = target.value),
  });
  const copy = () =>
    navigator.clipboard.writeText(whatIf.draft).then(
      () => setStatus(player, "Copied: stepscope run --branch FILE takes these changes."),
      () => draft.select(), // the browser forbids the clipboard
    );
  const title = "Make the run again with these changes; it is compared with the run that is shown now";
  panel.replaceChildren(
    ...drawForm(player, draft),
    draft,
    createNode("p", "ss-line", [
      createButton("ss-branch-run", "Run from here", () => runBranch(player), { title }),
      createButton("", "copy YAML", copy),
      createButton("", "clear", () => ((whatIf.draft = draft.value = ""), draft.focus())),
    ]),
    drawTree(player),
  );
}

// The form of one change at the playhead, which is added to the text.
function drawForm(player, draft) {
  const { data, whatIf } = player,
    frame = frameAt(data, player.video.time);
  const kind = createNode("select", "", "", { ariaLabel: "Change" });
  kind.append(...KINDS.map(({ words }, value) => createNode("option", "", words, { value })));
  kind.value = whatIf.kind;
  const fields = createNode("span", "ss-fields");
  const draw = () => {
    whatIf.kind = Number(kind.value);
    fields.replaceChildren(...(KINDS[whatIf.kind].fields?.(data, frame) ?? []).map(drawField));
  };
  const add = () => {
    const { fields: hasFields, lines } = KINDS[whatIf.kind],
      values = [...fields.querySelectorAll("select, input, textarea")].map(({ value }) => value),
      at = frameAt(data, player.video.time),
      time = hasFields?.(data, at)[0] === WHERE && values[0] === WHERE[1] ? 0 : data.times[at],
      [first, ...others] = [`time: ${Number(time.toFixed(3))}`, ...lines(values, data)];
    const entry = [`- ${first}`, ...others.map((line) => `  ${line}`)].join("\n");
    whatIf.draft = draft.value = [whatIf.draft.trimEnd(), entry].filter(Boolean).join("\n");
    draft.rows = Math.min(12, Math.max(4, whatIf.draft.split("\n").length));
  };
  kind.onchange = draw;
  draw();
  return [
    createNode("p", "ss-line", [createNode("span", "ss-dim", "at the playhead"), kind]),
    createNode("p", "ss-line", [fields, createButton("", "add", add)]),
  ];
}

function drawField(field) {
  if (field === WHERE) return drawChoice("from", WHERE);
  const [label, value, chosen] = field;
  if (Array.isArray(value)) return drawChoice(label, value, chosen);
  const tag = label === "steps" ? "textarea" : "input",
    properties = { value, ariaLabel: label, title: label, autocomplete: "off" };
  return createNode(tag, "", "", tag === "textarea" ? { ...properties, rows: 4 } : properties);
}

function drawChoice(ariaLabel, choices, chosen = choices[0]) {
  const box = createNode("select", "", "", { ariaLabel, title: ariaLabel });
  box.append(...choices.map((choice) => createNode("option", "", choice.replace("_", " "), { value: choice })));
  box.value = chosen;
  return box;
}

function runBranch(player) {
  if (!player.whatIf.draft.trim()) return setStatus(player, "There is no change yet: add one, or paste a file.");
  player.trigger("what_if", { changes: player.whatIf.draft, is_new: true });
}

// Keeps the branch that is shown, with the failures that it fixes and breaks in the run below it.
export function keepBranch(player) {
  const { data, whatIf } = player,
    root = data?.branch?.root ?? data?.run;
  if (!data || (whatIf.root !== root && data.is_finished)) Object.assign(whatIf, { root, nodes: [] });
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
  if (!known) whatIf.nodes.push({ name, changes, parent, difference, number: data.failures.length });
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
