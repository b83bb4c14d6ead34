// The transcript beside the video: a row per turn, of which only those in view are in the page.

import {
  clockText,
  countUpTo,
  drawnVerdict,
  KINDS,
  referenceWord,
  SIGNS,
  signOfTurn,
  updateWords,
} from "../state/data.js";
import { createNode, createQuote } from "../dom/dom.js";
import { WindowedList } from "../dom/windowed_list.js";

export function legalityTag({ legality }) {
  const title =
    legality === "malformed"
      ? "not written as STEP->start or STEP->complete: it changes nothing"
      : "in the states that the model had, it skips, repeats or goes back, or its step does not exist; it " +
        "may still match the reference";
  return createNode("span", "ss-tag ss-detail", legality === "illegal" ? "illegal in the model's states" : legality, {
    title,
  });
}

// An update as it is written, for *details*, and in words.
export function createUpdate(data, tag, text) {
  return [createNode(tag, "ss-detail", text), createNode(tag, "ss-plain", updateWords(data, text))];
}

const ROLES = { update: ["◆", "update of a step"], user: ["▹", "user"], assistant: ["●", "message"] };
const GRADES = ["wrong", "partly right", "right"];

// The grade that the judge gave the replies of a reply span so far.
export function gradeText(data, turn) {
  return `${GRADES[turn.grade]}, ${turn.grade} of 2, by ${data.judge}`;
}

function gradeTag(data, turn) {
  return createNode("small", "ss-score ss-grade", `${turn.grade}/2`, { title: `judged ${gradeText(data, turn)}` });
}

function quoteLabel(data, turn, reference) {
  if (!data.has_reference) return referenceWord(data);
  if (reference.role === "user") return data.isReferenceAlone ? "user" : "user, not in this run";
  if (reference.role === "assistant") return "should have said";
  if (turn || data.isReferenceAlone || !data.has_states) return "really";
  return reference.is_missed ? "missed" : "not reached";
}

export class Transcript {
  // `verdicts` are those that a reviewer can give; `go(row)` is called for a row that is chosen.
  constructor(panel, verdicts, go) {
    Object.assign(this, { panel, verdicts, rows: [], current: -1 });
    this.isMarked = true; // whether the current row is marked: a wrong state has no row, and shows those of its time
    this.selected = null; // the key of the event that was selected last
    this.list = new WindowedList(panel, (number) => this.drawRow(this.data, this.rows[number]));
    // also when a hidden transcript is shown
    this.sizes = new ResizeObserver(() => this.reveal(this.selected !== null));
    this.sizes.observe(panel);
    panel.addEventListener("click", (event) => {
      const row = event.target.closest(".ss-row");
      if (row) go(this.rows[row.dataset.row]);
    });
    panel.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (["Enter", " "].includes(event.key) && event.target.dataset.row) go(this.rows[event.target.dataset.row]);
      else if (step) this.list.bring(Number(event.target.closest(".ss-row")?.dataset.row) + step)?.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  draw(data) {
    Object.assign(this, { data, rows: data.rows, current: -1, selected: null, opinions: null });
    this.list.reset(this.rows.length);
    if (!this.rows.length) this.panel.append(createNode("p", "ss-dim", "No responses or updates."));
  }

  // Shows the rows that were inserted at these indices, in order.
  insert(places) {
    if (!this.list.length && places.length) this.panel.lastChild.remove(); // the line for an empty transcript
    this.list.anchored(() =>
      places.forEach((place) => {
        if (place <= this.current) this.current += 1;
        this.list.insert(place);
      }),
    );
  }

  drawRow(data, row) {
    const { turn, reference, role } = row;
    const missed = reference?.is_missed ? { update: "missed update", assistant: "missed" }[role] : null,
      kind = turn ? turn.failure : missed;
    const score = turn?.verdict === "matched" && turn.score !== null ? turn.score.toFixed(2) : "";
    const sign = turn ? signOfTurn(turn) : KINDS[kind];
    const mark = createNode(
      "span",
      `ss-mark ss-${kind ? "mismatched" : turn && drawnVerdict(turn)}`,
      [
        sign,
        score && createNode("small", "ss-score ss-detail", score),
        turn?.grade !== undefined && gradeTag(data, turn),
      ],
      { title: [SIGNS[sign], score && `similarity ${score}`].filter(Boolean).join("; ") },
    );
    const isGiven = role === "user" && reference.is_given,
      isQuoted = !isGiven && reference && (!turn || reference.text !== turn.text);
    const words = createNode("span", "ss-words", [
      ...(role === "update" && turn
        ? createUpdate(data, "span", turn.text)
        : [turn && createNode("span", "", turn.text)]),
      turn && turn.legality !== "legal" && legalityTag(turn),
      isGiven && createNode("span", "", reference.text),
      isQuoted &&
        createQuote(
          quoteLabel(data, turn, reference),
          role === "update" ? createUpdate(data, "span", reference.text) : reference.text,
        ),
    ]);
    const parts = [
      createNode("span", "ss-time", clockText(row.time)),
      createNode("span", "", ROLES[role][0], { title: ROLES[role][1] }),
      words,
      mark,
      createNode("span", "ss-given"),
    ];
    const box = createNode("div", "ss-row", parts, { role: "button" });
    box.classList.toggle("ss-current", this.isMarked && row === this.rows[this.current]);
    if (this.opinions) this.markRow(box, row);
    return box;
  }

  // Writes the reviewer's verdicts beside the rows; `opinions` returns the opinions on the events with some keys.
  mark(opinions) {
    this.opinions = (row) => opinions([row.reference?.key, row.turn?.key]).filter((found) => found.verdict !== null);
    this.list.boxes.forEach((box) => this.markRow(box, this.rows[box.dataset.row]));
  }

  markRow(row, { reference, turn }) {
    const said = this.opinions({ reference, turn }),
      box = row.lastElementChild;
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
    const isOf = (row) => (event.turn === null ? row.link === event.reference : row.number === event.turn);
    const hasRow = event && (event.turn !== null || event.reference !== null); // a wrong state has no row
    let number = hasRow ? this.rows.findIndex(isOf) : -1;
    if (number < 0) number = countUpTo(this.rows, time + 1e-4, (row) => row.time) - 1;
    const selected = isSelected ? (event?.key ?? null) : null,
      isNew = selected !== null && selected !== this.selected,
      isMarked = !event || hasRow;
    this.selected = selected;
    if (number === this.current && isMarked === this.isMarked && !isNew) return;
    this.list.boxOf(this.current)?.classList.remove("ss-current");
    Object.assign(this, { current: number, isMarked });
    this.list.boxOf(number)?.classList.toggle("ss-current", isMarked);
    this.reveal(selected !== null);
  }

  // Scrolls to the current row. Under the mouse or the focus, only to a selected row that is wholly out of view.
  reveal(isSelected) {
    const { panel } = this,
      isInUse = panel.matches(":hover, :focus-within");
    if (this.current < 0 || !panel.clientHeight || (isInUse && !isSelected)) return;
    const row = this.list.bring(this.current),
      slack = isInUse ? row.offsetHeight : 0;
    const top = row.offsetTop - panel.offsetTop,
      bottom = top + row.offsetHeight;
    if (top < panel.scrollTop - slack || bottom > panel.scrollTop + panel.clientHeight + slack)
      panel.scrollTop = top - panel.clientHeight / 3;
  }
}
