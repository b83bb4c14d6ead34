// A virtual list: only the rows near the view are in the page; empty space stands in for the rest.

import { countUpTo } from "../state/data.js";
import { createNode } from "./dom.js";

const MARGIN_ROWS = 60; // kept ready above and below the view
const DEFAULT_ROW_HEIGHT = 26; // of a row that was never drawn, in pixels

export class WindowedList {
  // drawRow(number) returns the box of a row; at most `maxRows` are in the page at once.
  constructor(panel, drawRow, maxRows = 240) {
    Object.assign(this, { panel, drawRow, maxRows, length: 0, first: 0, boxes: [] });
    [this.above, this.below] = [createNode("div"), createNode("div")];
    panel.style.overflowAnchor = "none"; // `anchored` replaces it
    panel.addEventListener("scroll", () => this.follow(), { passive: true });
  }

  get end() {
    return this.first + this.boxes.length;
  }

  reset(length) {
    Object.assign(this, { length, first: 0, boxes: [], height: DEFAULT_ROW_HEIGHT });
    this.panel.replaceChildren(this.above, this.below);
    this.panel.scrollTop = 0;
    this.moveTo(0);
  }

  boxOf(number) {
    return this.boxes[number - this.first] ?? null;
  }

  // Adds a row to the page if it is missing; returns its element.
  bring(number) {
    if (!this.boxOf(number)) this.moveTo(number - this.maxRows / 2);
    return this.boxOf(number);
  }

  insert(number) {
    this.length += 1;
    const isAbove = number < this.first;
    if (isAbove) this.first += 1;
    else if (number < this.end || (number === this.end && this.boxes.length < this.maxRows)) {
      const box = this.drawRow(number);
      (this.boxOf(number) ?? this.below).before(box);
      this.boxes.splice(number - this.first, 0, box);
      if (this.boxes.length > this.maxRows) this.boxes.pop().remove();
    }
    for (let later = Math.max(this.first, isAbove ? 0 : number); later < this.end; later += 1)
      this.name(this.boxOf(later), later);
    this.pad();
  }

  // Runs `work`, which may add or remove rows above the view, and keeps the rows in view in place.
  anchored(work) {
    const { panel } = this,
      box = panel.scrollTop > 0 ? this.boxOf(this.firstInView()) : null;
    const apart = box ? box.offsetTop - panel.scrollTop : 0;
    work();
    if (box?.parentNode === panel && box.offsetTop - panel.scrollTop !== apart) panel.scrollTop = box.offsetTop - apart;
  }

  // Renders the rows from about `first`.
  moveTo(first) {
    const from = Math.max(0, Math.min(first, this.length - this.maxRows)),
      end = Math.min(this.length, from + this.maxRows);
    const kept = new Map(this.boxes.map((box, at) => [this.first + at, box]));
    this.measure();
    for (const [number, box] of kept) if (number < from || number >= end) box.remove();
    const boxes = [];
    for (let number = end - 1, next = this.below; number >= from; number -= 1) {
      const box = kept.get(number) ?? this.drawRow(number);
      if (box.nextSibling !== next) next.before(box); // a row that stays keeps the focus
      boxes.push((next = box));
    }
    [this.first, this.boxes] = [from, boxes.reverse()];
    boxes.forEach((box, at) => this.name(box, from + at));
    this.pad();
  }

  name(box, number) {
    box.dataset.row = number;
    box.tabIndex = number === this.first ? 0 : -1;
  }

  measure() {
    const height = this.boxes.length ? (this.below.offsetTop - this.boxes[0].offsetTop) / this.boxes.length : 0;
    if (height > 0) this.height = height; // 0 while the list is hidden
  }

  pad() {
    this.above.style.height = `${this.first * this.height}px`;
    this.below.style.height = `${(this.length - this.end) * this.height}px`;
  }

  // The first row in view, or an estimate where the rows are not in the page.
  firstInView() {
    const { panel, boxes } = this,
      top = panel.scrollTop + panel.offsetTop;
    if (!boxes.length || top < boxes[0].offsetTop) return Math.floor(panel.scrollTop / this.height);
    if (top >= this.below.offsetTop) return this.end + Math.floor((top - this.below.offsetTop) / this.height);
    return this.first + Math.max(0, countUpTo(boxes, top, (box) => box.offsetTop) - 1);
  }

  follow() {
    if (this.length <= this.maxRows) return;
    const first = this.firstInView(),
      last = first + this.panel.clientHeight / this.height;
    const isNear =
      (first - this.first < MARGIN_ROWS / 2 && this.first > 0) ||
      (this.end - last < MARGIN_ROWS / 2 && this.end < this.length);
    if (!isNear) return;
    const move = () => this.moveTo(Math.round((first + last - this.maxRows) / 2));
    if (this.boxOf(Math.floor(first))) return this.anchored(move);
    move();
    const box = this.boxOf(Math.min(this.length - 1, Math.max(0, Math.floor(first))));
    if (box) this.panel.scrollTop = box.offsetTop - this.panel.offsetTop;
  }
}
