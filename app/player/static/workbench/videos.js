// The videos of the shown run as rows: a picture, a strip of the mistakes over time, scores, and moments of a search.

import { createButton, createNode, waitsForRelease } from "../dom/dom.js";
import { WindowedList } from "../dom/windowed_list.js";

const PICTURE_DELAY_MS = 150; // rows that only scroll past load no picture
const MAX_ROWS = 90; // a few are drawn at a time while the list scrolls
const MAX_HITS = 3; // of a row; the strip has all
const MAX_MARKS = 120; // per strip, which is a few hundred pixels wide

const clock = (time) => `${Math.floor(time / 60)}:${(time % 60).toFixed(1).padStart(4, "0")}`;

class VideoRows {
  constructor({ element, trigger, props, settings }) {
    Object.assign(this, { trigger, props, settings, box: element.querySelector(".wb-videos") });
    this.said = createNode("p", "wb-said", "", { role: "status" });
    this.head = createNode("div", "wb-video wb-head");
    this.panel = createNode("div", "wb-rows", "", { role: "list" });
    this.panel.addEventListener("keydown", (event) => this.move(event));
    this.box.append(this.said, this.head, this.panel);
    this.rows = new WindowedList(this.panel, (number) => this.drawRow(this.list.videos[number]), MAX_ROWS);
    this.seen = new IntersectionObserver((entries) => entries.forEach((entry) => this.awaitPicture(entry)), {
      root: this.panel,
    });
  }

  draw() {
    if (!this.props.value || waitsForRelease(this.box, () => this.draw())) return;
    const before = this.list,
      { scrollTop } = this.panel;
    this.list = JSON.parse(this.props.value);
    const { said, is_problem: isProblem, videos, key } = this.list;
    this.said.textContent = said;
    this.said.classList.toggle("problem", isProblem);
    this.head.hidden = !videos.length;
    this.drawHead();
    this.seen.disconnect();
    this.rows.reset(videos.length);
    if (before?.key === key) this.panel.scrollTop = scrollTop;
  }

  drawHead() {
    const { columns, order, videos } = this.list,
      hasFailed = videos.some((video) => video.failed);
    const cells = columns.map(([name, label], at) => this.drawSort(name, label, order, `wb-score c${at}`));
    this.head.replaceChildren(
      hasFailed ? this.drawSort("error", "Failed first", order, "wb-picture") : createNode("span", "wb-picture"),
      createNode("div", "wb-line", [
        this.drawSort("video_id", "Video", order, ""),
        createButton("wb-wide", this.isWide ? "beside the views" : "all scores", () => this.widen()),
      ]),
      createNode("div", "wb-numbers", cells),
    );
  }

  // The views at the right give their place to all scores.
  widen() {
    this.isWide = document.querySelector("#bench").toggleAttribute("data-wide");
    this.drawHead();
  }

  // The first click sorts the worst or the first video first, the next one turns the order around.
  drawSort(name, label, order, style) {
    const [isUp, isDown] = [order === name, order === `-${name}`],
      arrow = isUp ? " ▲" : isDown ? " ▼" : "";
    const sort = () =>
      this.trigger("sort", { by: isUp ? `-${name}` : isDown ? name : (this.list.first[name] ?? name) });
    return createButton(`${style} ${isUp || isDown ? "wb-sorted" : ""}`, `${label}${arrow}`, sort);
  }

  drawRow(video) {
    const { columns, hits, run } = this.list,
      found = hits.slice(...video.hits),
      at = found[0]?.time ?? video.marks[0]?.[0] ?? (video.length ?? 0) / 2;
    const open = () =>
      this.trigger("open", { point: video.id, run: video.run, number: found.length ? video.hits[0] : null });
    const picture = createNode("img", "wb-picture", "", { alt: "", onclick: open });
    const query = new URLSearchParams({ run: video.run, video: video.id, time: at });
    picture.dataset.at = `${this.settings.picture_url}?${query}`;
    picture.onerror = () => picture.removeAttribute("src");
    this.seen.observe(picture);
    const cells = video.scores.map((score, place) => {
      const text = score === null ? "–" : columns[place][2] ? String(score) : score.toFixed(3);
      return createNode("span", `wb-score c${place}`, text, { title: columns[place][1] });
    });
    const row = createNode("div", "wb-video", [
      picture,
      createNode("div", "wb-about", [
        createNode("div", "wb-line", [
          createButton("wb-name", video.run === run ? video.name : `${video.name} (${video.run})`, open, {
            title: video.id,
          }),
          video.remark &&
            createNode("span", video.failed ? "wb-note problem" : "wb-note", video.remark, { title: video.remark }),
        ]),
        this.drawStrip(video, found),
        ...found.slice(0, MAX_HITS).map((hit, place) => this.drawHit(hit, video.hits[0] + place)),
        found.length > MAX_HITS && createNode("span", "wb-dim", `and ${found.length - MAX_HITS} more in the strip`),
      ]),
      createNode("div", "wb-numbers", cells),
    ]);
    row.role = "listitem";
    return row;
  }

  // Marks of a search lie before those of all mistakes, which are faint then.
  drawStrip({ marks, length, hits: [first] }, found) {
    const end = length || Math.max(1, ...marks.map(([time]) => time)),
      step = Math.ceil(marks.length / MAX_MARKS);
    const mark = (time, kind, style) =>
      createNode("i", style, "", {
        style: `left:${(100 * Math.min(1, time / end)).toFixed(2)}%`,
        title: `${clock(time)} ${kind}`,
      });
    const strip = createNode("div", found.length ? "wb-strip wb-searched" : "wb-strip", [
      ...marks
        .filter((_, at) => at % step === 0)
        .map(([time, kind]) => mark(time, kind, /update|state/.test(kind) ? "wb-task" : "")),
      ...found.slice(0, MAX_MARKS).map((hit, at) => {
        const node = mark(hit.time, hit.failure || hit.what, "wb-hit");
        node.onclick = () => this.trigger("open", { number: first + at });
        return node;
      }),
    ]);
    strip.role = "img";
    strip.ariaLabel = marks.length
      ? `Mistakes at ${marks
          .slice(0, 9)
          .map(([time]) => clock(time))
          .join(", ")}`
      : "No mistakes";
    return strip;
  }

  drawHit({ time, what, failure, text, reference, cause, margin }, number) {
    const said = [text && `“${text}”`, reference && reference !== text && `should: “${reference}”`];
    const about = [failure || what, ...said, cause && `cause ${cause}`, margin !== null && `margin ${margin}`];
    const words = about.filter(Boolean).join(" · ");
    const open = () => this.trigger("open", { number });
    return createButton("wb-moment", [createNode("b", "", clock(time)), ` ${words}`], open, { title: words });
  }

  awaitPicture({ target, isIntersecting }) {
    clearTimeout(target.timer);
    if (!isIntersecting || target.src) return;
    const load = () => target.isConnected && (target.src = new URL(target.dataset.at, document.baseURI).href);
    target.timer = setTimeout(load, PICTURE_DELAY_MS);
  }

  // The arrow keys go from video to video.
  move(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key],
      row = event.target.closest("[data-row]");
    const next = by && row ? Number(row.dataset.row) + by : -1;
    if (next < 0 || next >= this.list.videos.length) return;
    event.preventDefault();
    this.rows.bring(next).querySelector(".wb-name").focus();
  }
}

export function mount(host) {
  const rows = new VideoRows(host);
  host.watch("value", () => rows.draw());
  rows.draw();
}
