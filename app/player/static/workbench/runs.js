// The runs of the batch tab as rows: a click shows one, two ticks compare two; a run that streams has its progress.

import { createButton, createNode, waitsForRelease } from "../dom/dom.js";
import { suggestFold } from "../dom/fold.js";
import { batch } from "../state/batch.js";

const WIDE_VIEWS = ":is(#tab_Leaderboard, #tab_Training, #tab_Split):not([style*=none])";
const joined = (parts) => parts.filter(Boolean).join(" · ");

class RunRows {
  constructor({ element, trigger, props }) {
    Object.assign(this, { trigger, props, box: element.querySelector(".wb-runs"), shown: null });
    const draw = () => this.draw();
    this.words = createNode("input", "", "", { type: "search", placeholder: "Find: words, tags", oninput: draw });
    this.words.ariaLabel = "Find runs by words";
    this.rows = createNode("div", "wb-rows", "", { role: "list" });
    this.views = createNode("nav", "wb-line", "", { ariaLabel: "Views of the runs" });
    this.box.append(this.views, this.words, (this.head = createNode("div", "wb-scores wb-dim")), this.rows);
  }

  // Before the first run, the form of a new one is open.
  receive() {
    if (!this.props.value) return;
    const { runs, shown, other, is_entry: isEntry } = JSON.parse(this.props.value);
    Object.assign(batch, { run: shown, other, ...(isEntry && { entered: shown }) });
    if (isEntry) suggestFold("new_run", runs.length ? "folded" : "open");
    this.draw();
  }

  draw() {
    if (!this.props.value || waitsForRelease(this.box, () => this.draw())) return;
    this.list = JSON.parse(this.props.value);
    this.live = this.props.patch ? JSON.parse(this.props.patch) : {};
    const { columns, runs, shown } = this.list,
      terms = this.words.value.toLowerCase().split(/\s+/),
      isFound = (run) =>
        terms.every((term) =>
          joined([run.name, run.about, run.note, ...run.tags])
            .toLowerCase()
            .includes(term),
        ),
      focus = this.rows.contains(document.activeElement) && document.activeElement.dataset.key;
    const openView = (view) => () => this.trigger("view", { view });
    this.views.replaceChildren(
      ...Object.entries(this.list.views).map(([id, label]) => createButton("", label, openView(id))),
    );
    this.words.hidden = runs.length < 8;
    this.head.replaceChildren(...columns.map((label) => createNode("span", "", label)));
    this.rows.replaceChildren(...runs.filter(isFound).map((run) => this.drawRow(run)));
    if (!runs.length)
      this.rows.append(createNode("p", "wb-dim", "No runs yet. Choose a split and press Start.", { role: "listitem" }));
    if (focus) this.rows.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
    if (shown === this.shown) return;
    this.shown = shown;
    this.rows.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  drawRow(run) {
    const { shown, other } = this.list,
      live = this.live[run.name] ?? run,
      letter = other && (run.name === shown ? "A" : run.name === other ? "B" : ""),
      isShown = run.name === shown;
    const tick = createNode("input", "", "", { type: "checkbox", checked: isShown || run.name === other });
    tick.onchange = () => this.tick(run.name, tick.checked);
    tick.ariaLabel = `Compare ${run.name}`;
    const name = createButton("wb-name", run.name, () => this.pick(run.name, other === run.name ? "" : other));
    [tick, name].forEach((box, at) => (box.dataset.key = `${at} ${run.name}`));
    const row = createNode("div", "wb-run", [
      createNode("div", "wb-line", [tick, name, letter && createNode("b", "wb-letter", letter)]),
      run.scores.some(Boolean) &&
        createNode(
          "div",
          "wb-scores",
          run.scores.map((score) => createNode("span", "", score)),
        ),
      (run.about || run.tags.length > 0) &&
        createNode("div", "wb-dim", joined([...run.tags.map((tag) => `#${tag}`), run.about])),
      run.note && createNode("div", "wb-note", run.note, { title: run.note }),
      live.said &&
        createNode(
          "div",
          live.is_problem ? "wb-said problem" : "wb-said",
          `${live.is_problem ? "⚠ " : ""}${live.said}`,
        ),
      live.total > 0 && createNode("progress", "", "", { value: live.done, max: live.total, ariaLabel: "frames" }),
      ...(live.workers ?? []).map(({ name: worker, about }) =>
        createNode("div", "wb-dim", [createNode("b", "", worker), ` ${about}`]),
      ),
      isShown &&
        createNode(
          "div",
          "wb-line",
          run.actions.map(([event, label]) => createButton("", label, () => this.trigger(event, {}))),
        ),
    ]);
    row.role = "listitem";
    if (isShown) row.ariaCurrent = "true";
    if (isShown) row.querySelector(".wb-said")?.setAttribute("role", "status");
    return row;
  }

  // A view of all runs gives way to the videos of the picked one.
  pick(a, b) {
    this.trigger("pick", { a, b: b ?? "" });
    if (!b && document.querySelector(WIDE_VIEWS)?.checkVisibility()) this.trigger("view", { view: "Scores" });
  }

  // A second tick is run B; without A, B is shown alone.
  tick(name, isTicked) {
    const { shown, other } = this.list;
    if (isTicked) return shown ? this.pick(shown, name) : this.pick(name, "");
    return name === other || !other ? this.pick(shown, "") : this.pick(other, "");
  }
}

export function mount(host) {
  const rows = new RunRows(host);
  host.watch("value", () => rows.receive());
  host.watch("patch", () => rows.draw());
  rows.receive();
}
