// The video element, or a clock without one; captions over it.

import { escapeMarkup } from "../dom/dom.js";

const ARRIVAL_MS = 5000; // within this time a video that is exchanged has another source
const STALL_MS = 1000; // how long playback may wait for a picture whose data is buffered
const VIDEO_EVENTS = ["play", "playing", "pause", "seeking", "seeked", "loadedmetadata", "emptied"];

export class VideoPlayer {
  // onMove(): called when the time jumps, and when playback starts or stops. onFailure(): when no picture follows.
  constructor(selector, onMove, onFailure) {
    Object.assign(this, {
      selector,
      onMove,
      onFailure,
      video: null,
      captions: "off",
      rate: 1,
      wanted: null,
      arrival: null,
      sought: 0,
    });
    Object.assign(this, { clock: 0, end: Infinity, began: null }); // of the clock, in seconds; when it was started
  }

  // Gradio replaces the element when its value changes, so it is looked up again each time.
  refresh() {
    const video = document.querySelector(this.selector);
    if (video !== this.video) {
      this.video = video;
      this.track = null;
      if (video) video.playbackRate = this.rate;
      for (const name of video ? VIDEO_EVENTS : []) video.addEventListener(name, this.onMove);
      video?.addEventListener("error", () => this.fail(video));
      video?.addEventListener("waiting", () => setTimeout(() => this.endStall(video), STALL_MS));
      video?.addEventListener("loadedmetadata", () => (video.style.opacity = ""));
    }
    if (!video && this.began !== null && this.clockTime >= this.end) this.pause();
    if (!(video?.readyState >= 1)) return video;
    if (this.wanted !== null) video.currentTime = this.wanted;
    this.wanted = null;
    if (!this.arrival || video.currentSrc === this.arrival.before) return video;
    video.currentTime = this.arrival.time;
    this.arrival = null;
    return video;
  }

  // Chromium stops for good at damage: from then on the element would show its last picture at every time.
  fail(video) {
    if (video.readyState < 1 || video !== this.video) return; // it is being exchanged
    video.style.opacity = 0;
    this.onFailure();
  }

  // After a seek that replaces another one, Chromium may stall for good with all its data buffered; a seek ends that.
  // A stall is looked at again until it ends: a slow machine may still seek, or buffer, at the first look.
  endStall(video) {
    const { buffered, currentTime: time, readyState, paused, seeking } = video;
    if (paused || readyState > 2 || video !== this.video) return;
    setTimeout(() => this.endStall(video), STALL_MS);
    for (let range = 0; range < buffered.length && !seeking; range++)
      if (buffered.start(range) <= time && buffered.end(range) > Math.min(time + 1, video.duration - 0.1))
        video.currentTime = time;
  }

  // Resolves when the video shows a picture, and after `limit_ms` in any case: it may be missing, damaged or slow.
  async firstPicture(limit_ms) {
    for (const end = performance.now() + limit_ms; performance.now() < end;) {
      const video = this.refresh();
      if (video?.readyState >= 2 && !video.seeking) return;
      await new Promise(requestAnimationFrame);
    }
  }

  // Seeks in a video that may still be loading: until then, the element shows the previous one.
  arriveAt(time) {
    this.time = time;
    const arrival = (this.arrival = { time, before: this.video?.currentSrc });
    const expire = () => {
      if (this.arrival !== arrival) return;
      if (this.refresh()?.readyState >= 1) this.arrival = null; // it stays the same video
      else setTimeout(expire, ARRIVAL_MS); // a slow machine or network has not loaded it yet
    };
    setTimeout(expire, ARRIVAL_MS);
  }

  get time() {
    if (!this.video?.isConnected) this.refresh(); // a paused player does so only a few times a second
    // until then, the element shows the previous video
    if (this.arrival && this.video?.paused) return this.arrival.time;
    const { video, sought } = this;
    if (!video) return this.clockTime;
    const isAtEnd = video.paused && sought > video.duration && video.currentTime > video.duration - 0.1;
    return this.wanted ?? (isAtEnd ? sought : video.currentTime); // its own end may be before the last frame
  }

  get clockTime() {
    const passed = this.began === null ? 0 : ((performance.now() - this.began) / 1000) * this.rate;
    return Math.min(this.end, this.clock + passed);
  }

  set time(time) {
    if (!this.video?.isConnected) this.refresh();
    if (this.video?.readyState >= 1) this.video.currentTime = time;
    else if (this.video) this.wanted = time;
    this.clock = this.sought = time;
    if (this.arrival) this.arrival.time = time;
    if (this.began !== null) this.began = performance.now();
    this.onMove();
  }

  get isPaused() {
    return this.video ? this.video.paused : this.began === null;
  }

  play() {
    if (this.video) return void this.video.play().catch(() => {}); // a play that is interrupted by a seek is no failure
    if (this.clock >= this.end) this.clock = 0;
    this.began = performance.now();
  }

  pause() {
    if (!this.video) this.clock = this.clockTime;
    this.began = null;
    this.video?.pause();
  }

  setRate(rate) {
    const now = this.time;
    this.time = now; // the clock continues from here at the new rate
    this.rate = rate;
    if (this.video) this.video.playbackRate = rate;
  }

  // Shows lines as WebVTT cues; which: off, model or reference.
  caption(data, which) {
    this.captions = which;
    if (!this.video) return;
    this.track ??= this.video.addTextTrack("captions", "StepScope");
    this.track.mode = which === "off" ? "disabled" : "showing";
    if (which === "off") return;
    // oxlint-disable-next-line unicorn/no-useless-spread -- the list is live
    for (const cue of [...(this.track.cues ?? [])]) this.track.removeCue(cue);
    this.addCues(which === "model" ? data.responses : data.referenceTurns, data.duration_s);
  }

  addCues(turns, duration) {
    turns.forEach((turn, number) => {
      const end = Math.min(turn.time + 4, turns[number + 1]?.time ?? Infinity, duration);
      if (end > turn.time) this.track.addCue(new VTTCue(turn.time, end, escapeMarkup(turn.text.slice(0, 300))));
    });
  }

  appendCaptions(data, turns) {
    if (this.captions !== "model" || !this.track || !turns.length) return;
    const last = this.track.cues?.[this.track.cues.length - 1];
    if (last) last.endTime = Math.min(last.endTime, turns[0].time);
    this.addCues(turns, data.duration_s);
  }
}
