// The transcript beside the video: a row per turn, of which only those in view are in the page.

import { clockText, countUpTo, KINDS } from "../state/data.js";
import { createNode, createQuote } from "../dom/dom.js";
import { host } from "../state/state.js";
import { WindowedList } from "../dom/windowed_list.js";

export function legalityTag(turn) {
  const tag = createNode("span", "ss-tag", turn.legality);
  tag.title = turn.legality === "malformed"
    ? "not written as STEP->start or STEP->complete: it changes nothing"
    : "of a step that does not exist, or it skips, repeats or goes back";
  return tag;
}

function quoteLabel(data, turn, reference) {
  if (turn || data.isReferenceAlone) return "reference";
  if (reference.role === "user") return "reference, not in this run";
  return reference.is_missed ? "missed" : "not reached";
}

export class Transcript {
  constructor(panel, go) {
    this.panel = panel;
    this.rows = [];
    this.current = -1;
    this.list = new WindowedList(panel, (number) => this.drawRow(this.data, this.rows[number]));
    panel.addEventListener("click", (event) => {
      const row = event.target.closest(".ss-row");
      if (row) go(this.rows[row.dataset.row]);
    });
    panel.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" && event.target.dataset.row) go(this.rows[event.target.dataset.row]);
      else if (step) this.list.bring(Number(event.target.closest(".ss-row")?.dataset.row) + step)?.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  draw(data) {
    this.data = data;
    this.rows = data.rows;
    this.current = -1;
    this.opinions = null;
    this.list.reset(this.rows.length);
    if (!this.rows.length) this.panel.append(createNode("p", "ss-dim", "No responses or updates."));
  }

  // Shows the rows that were inserted at these indices, in order.
  insert(places) {
    if (!this.list.length) this.panel.lastChild.remove(); // the line for an empty transcript
    this.list.anchored(() => places.forEach((place) => {
      if (place <= this.current) this.current += 1;
      this.list.insert(place);
    }));
  }

  drawRow(data, row) {
    const box = createNode("div", "ss-row");
    box.setAttribute("role", "button");
    const glyph = { update: "◆", user: "▹", assistant: "●" }[row.role];
    const words = createNode("span", "ss-words");
    const { turn, reference } = row;
    const kind = turn ? turn.failure : reference.is_missed ? { update: "missed update", assistant: "missed" }[row.role] : null;
    const mark = createNode("span", `ss-mark ss-${kind ? "mismatched" : "matched"}`, kind ? KINDS[kind] : turn?.verdict ? "✓" : "");
    mark.title = kind ?? "";
    if (turn && turn.score !== null && turn.verdict === "matched") {
      mark.title = [kind, `similarity ${turn.score.toFixed(2)}`].filter(Boolean).join(", ");
      mark.append(createNode("small", "ss-score", turn.score.toFixed(2)));
    }
    if (turn) words.append(createNode("span", "", turn.text));
    if (turn && turn.legality !== "legal") words.append(legalityTag(turn));
    if (row.role === "user" && reference.is_given) words.append(createNode("span", "", reference.text));
    else if (reference && (!turn || reference.text !== turn.text)) {
      words.append(createQuote(quoteLabel(data, turn, reference), reference.text));
    }
    box.append(createNode("span", "ss-time", clockText(row.time)), createNode("span", "", glyph), words, mark, createNode("span", "ss-given"));
    box.classList.toggle("ss-current", row === this.rows[this.current]);
    if (this.opinions) this.markRow(box, row);
    return box;
  }

  // Writes the reviewer's verdicts beside the rows; `opinions` returns the opinions on the events with some keys.
  mark(opinions) {
    this.opinions = (row) => opinions([row.reference?.key, row.turn?.key]).filter((found) => found.verdict !== null);
    this.list.boxes.forEach((box) => this.markRow(box, this.rows[box.dataset.row]));
  }

  markRow(row, { reference, turn }) {
    const said = this.opinions({ reference, turn }), box = row.lastElementChild;
    const words = said.map((found) => `${found.verdict}${found.isWaiting ? " (not saved yet)" : ""}`).join(", ");
    if (box.title === words) return;
    box.title = words;
    box.replaceChildren(...said.map((found) => createNode("kbd", found.isWaiting ? "ss-waits" : "", host.props.verdicts.indexOf(found.verdict) + 1)));
  }

  // Marks the row of an event, a failure or a time; scrolls to it unless the mouse is over the list.
  follow(time, selected) {
    if (!this.panel.clientHeight) return; // hidden: it follows once it is shown
    const isOf = (row) => (selected.turn === null ? row.link === selected.reference : row.number === selected.turn);
    const hasRow = selected && (selected.turn !== null || selected.reference !== null); // a wrong state has no row
    let number = hasRow ? this.rows.findIndex(isOf) : -1;
    if (number < 0) number = countUpTo(this.rows, time + 1e-4, (row) => row.time) - 1;
    if (number === this.current) return;
    this.list.boxOf(this.current)?.classList.remove("ss-current");
    this.current = number;
    this.list.boxOf(number)?.classList.add("ss-current");
    if (number < 0 || this.panel.matches(":hover, :focus-within")) return;
    const row = this.list.bring(number);
    const [top, height] = [row.offsetTop - this.panel.offsetTop, this.panel.clientHeight];
    if (top < this.panel.scrollTop || top + row.offsetHeight > this.panel.scrollTop + height) this.panel.scrollTop = top - height / 3;
  }
}
