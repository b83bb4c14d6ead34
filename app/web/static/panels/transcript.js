// The transcript beside the video: a row per turn, of which only those in view are in the page.

import { clockText, countUpTo, drawnVerdict, KINDS, LOW_SIMILARITY, signOfTurn } from "../state/data.js";
import { createNode, createQuote } from "../dom/dom.js";

export function legalityTag({ legality }) {
  const title =
    legality === "malformed"
      ? "not written as STEP->start or STEP->complete: it changes nothing"
      : "in the states that the model had, it skips, repeats or goes back, or its step does not exist; it " +
        "may still match the reference";
  return createNode("span", "ss-tag", legality === "illegal" ? "illegal in the model's states" : legality, { title });
}

const GRADES = ["wrong", "partly right", "right"];

// The grade that the judge gave the replies of a reply span so far.
export function gradeText(data, turn) {
  return `${GRADES[turn.grade]}, ${turn.grade} of 2, by ${data.judge}`;
}

function gradeTag(data, turn) {
  return createNode("small", "ss-score ss-grade", `${turn.grade}/2`, { title: `judged ${gradeText(data, turn)}` });
}

function quoteLabel(data, turn, reference) {
  const isCompared = reference.role !== "update" || data.has_states;
  if (turn || data.isReferenceAlone || !isCompared) return "reference";
  if (reference.role === "user") return "reference, not in this run";
  return reference.is_missed ? "missed" : "not reached";
}

// What a row is about; the rows are made again when a run grows.
const subjectOf = ({ turn, reference }) => turn ?? reference;

export class Transcript {
  // `verdicts` are those that a reviewer can give; `go(row)` is called for a row that is chosen.
  constructor(panel, verdicts, go) {
    Object.assign(this, { panel, verdicts, data: null, current: null });
    this.boxes = new Map(); // by the subject of each row
    this.isMarked = true; // whether the current row is marked: a wrong state has no row, and shows those of its time
    this.selected = null; // the key of the event that was selected last
    // also when a hidden transcript is shown
    this.sizes = new ResizeObserver(() => this.reveal(this.selected !== null));
    this.sizes.observe(panel);
    const choose = (box) => go(this.data.rows.find((row) => this.boxOf(row) === box));
    panel.addEventListener("click", (event) => {
      const box = event.target.closest(".ss-row");
      if (box) choose(box);
    });
    panel.addEventListener("keydown", (event) => {
      const box = event.target.closest(".ss-row"),
        next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      if (!box || (!next && event.key !== "Enter")) return;
      if (next) box[next]?.focus();
      else choose(box);
      event.preventDefault();
      event.stopPropagation();
    });
  }

  boxOf(row) {
    return this.boxes.get(subjectOf(row));
  }

  draw(data) {
    Object.assign(this, { data, current: null, selected: null });
    this.boxes.clear();
    this.panel.replaceChildren();
    this.panel.scrollTop = 0;
    this.grow();
    if (!data.rows.length) this.panel.append(createNode("p", "ss-dim", "No responses or updates."));
  }

  // Draws the rows that are not in the panel yet.
  grow() {
    const { panel, data, boxes } = this;
    if (!boxes.size && data.rows.length) panel.replaceChildren(); // the line for an empty transcript
    data.rows.forEach((row, place) => {
      if (this.boxOf(row)) return;
      boxes.set(subjectOf(row), this.drawRow(data, row));
      panel.insertBefore(this.boxOf(row), panel.children[place] ?? null);
    });
    if (boxes.size) panel.firstChild.tabIndex = 0;
  }

  drawRow(data, row) {
    const { turn, reference, role } = row;
    const missed = reference?.is_missed ? { update: "missed update", assistant: "missed" }[role] : null,
      kind = turn ? turn.failure : missed;
    const score = turn?.verdict === "matched" && turn.score !== null ? turn.score.toFixed(2) : "";
    const mark = createNode(
      "span",
      `ss-mark ss-${kind ? "mismatched" : turn && drawnVerdict(turn)}`,
      [
        turn ? signOfTurn(turn) : KINDS[kind],
        score && createNode("small", "ss-score", score),
        turn?.grade !== undefined && gradeTag(data, turn),
      ],
      { title: [kind ?? (turn?.is_low && LOW_SIMILARITY), score && `similarity ${score}`].filter(Boolean).join(", ") },
    );
    const isGiven = role === "user" && reference.is_given,
      isQuoted = !isGiven && reference && (!turn || reference.text !== turn.text);
    const words = createNode("span", "ss-words", [
      turn && createNode("span", "", turn.text),
      turn && turn.legality !== "legal" && legalityTag(turn),
      isGiven && createNode("span", "", reference.text),
      isQuoted && createQuote(quoteLabel(data, turn, reference), reference.text),
    ]);
    const parts = [
      createNode("span", "ss-time", clockText(row.time)),
      createNode("span", "", { update: "◆", user: "▹", assistant: "●" }[role]),
      words,
      mark,
      createNode("span", "ss-given"),
    ];
    return createNode("div", "ss-row", parts, { role: "button", tabIndex: -1 });
  }

  // Writes the reviewer's verdicts beside the rows; `opinions` returns the opinions on the events with some keys.
  mark(opinions) {
    for (const row of this.data.rows) {
      const said = opinions([row.reference?.key, row.turn?.key]).filter((found) => found.verdict !== null);
      this.markRow(this.boxOf(row).lastElementChild, said);
    }
  }

  markRow(box, said) {
    const words = said.map((found) => `${found.verdict}${found.isWaiting ? " (not saved yet)" : ""}`).join(", ");
    if (box.title === words) return;
    box.title = words;
    const numbers = said.map(({ verdict, isWaiting }) =>
      createNode("kbd", isWaiting && "ss-waits", this.verdicts.indexOf(verdict) + 1),
    );
    box.replaceChildren(...numbers);
  }

  // Marks and shows the row of an event, a failure or a time. A selection shows its row again; playback moves a list
  // under the mouse only if the row was selected.
  follow(time, event, isSelected) {
    const { rows } = this.data,
      isOf = (row) => (event.turn === null ? row.link === event.reference : row.number === event.turn),
      hasRow = event && (event.turn !== null || event.reference !== null); // a wrong state has no row
    const row = (hasRow && rows.find(isOf)) || rows[countUpTo(rows, time + 1e-4, (other) => other.time) - 1],
      box = row ? this.boxOf(row) : null;
    const selected = isSelected ? (event?.key ?? null) : null,
      isNew = selected !== null && selected !== this.selected,
      isMarked = !event || hasRow;
    this.selected = selected;
    if (box === this.current && isMarked === this.isMarked && !isNew) return;
    this.current?.classList.remove("ss-current");
    Object.assign(this, { current: box, isMarked });
    box?.classList.toggle("ss-current", isMarked);
    this.reveal(selected !== null);
  }

  // Scrolls to the current row. Under the mouse or the focus, only to a selected row that is wholly out of view.
  reveal(isSelected) {
    const { panel, current } = this,
      isInUse = panel.matches(":hover, :focus-within");
    if (!current || !panel.clientHeight || (isInUse && !isSelected)) return;
    const slack = isInUse ? current.offsetHeight : 0,
      top = current.offsetTop - panel.offsetTop,
      bottom = top + current.offsetHeight;
    if (top < panel.scrollTop - slack || bottom > panel.scrollTop + panel.clientHeight + slack)
      panel.scrollTop = top - panel.clientHeight / 3;
  }
}
