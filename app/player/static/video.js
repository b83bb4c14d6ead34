// The video element, or a clock where there is none; captions over it.

const MOVES = ["play", "playing", "pause", "seeking", "seeked", "loadedmetadata", "emptied"];

export class Screen {
  // onMove(): called when the time jumps, or begins or ends to run.
  constructor(selector, onMove) {
    this.selector = selector;
    this.onMove = onMove;
    this.video = null;
    this.clock = 0;
    this.began = null;
    this.rate = 1;
    this.wanted = null;
    this.arrival = null;
    this.captions = "off";
  }

  // Gradio replaces the element when its value changes, so it is looked up again each time.
  refresh() {
    const video = document.querySelector(this.selector);
    if (video !== this.video) {
      this.video = video;
      this.track = null;
      if (video) video.playbackRate = this.rate;
      for (const name of video ? MOVES : []) video.addEventListener(name, this.onMove);
    }
    if (this.wanted !== null && video?.readyState >= 1) {
      video.currentTime = this.wanted;
      this.wanted = null;
    }
    if (this.arrival && video?.readyState >= 1 && video.currentSrc !== this.arrival.before) {
      video.currentTime = this.arrival.time;
      this.arrival = null;
    }
    return video;
  }

  // Goes to a moment of a video that may still be on its way: the element shows the one before until it is there.
  arriveAt(time) {
    this.time = time;
    const arrival = this.arrival = { time, before: this.video?.currentSrc };
    setTimeout(() => { if (this.arrival === arrival) this.arrival = null; }, 5000);
  }

  get time() {
    if (this.video) return this.wanted ?? this.video.currentTime;
    return this.clock + (this.began === null ? 0 : (performance.now() - this.began) / 1000 * this.rate);
  }

  set time(time) {
    if (this.video?.readyState >= 1) this.video.currentTime = time;
    else if (this.video) this.wanted = time;
    this.clock = time;
    if (this.began !== null) this.began = performance.now();
    this.onMove();
  }

  get isPaused() { return this.video ? this.video.paused : this.began === null; }

  play() {
    if (this.video) this.video.play().catch(() => {}); // a play that is interrupted by a seek is no failure
    else this.began = performance.now();
  }

  pause() {
    if (!this.video) this.clock = this.time;
    this.began = null;
    this.video?.pause();
  }

  setRate(rate) {
    this.time = this.time;
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
    for (const cue of [...this.track.cues ?? []]) this.track.removeCue(cue);
    this.addCues(which === "model" ? data.said : data.wanted, data.duration_s);
  }

  addCues(turns, duration) {
    turns.forEach((turn, number) => {
      const end = Math.min(turn.time + 4, turns[number + 1]?.time ?? Infinity, duration);
      if (end > turn.time) this.track.addCue(new VTTCue(turn.time, end, cueText(turn.text)));
    });
  }

  // Adds cues for what the model said since they were shown.
  appendCaptions(data, turns) {
    if (this.captions !== "model" || !this.track || !turns.length) return;
    const last = this.track.cues?.[this.track.cues.length - 1];
    if (last) last.endTime = Math.min(last.endTime, turns[0].time);
    this.addCues(turns, data.duration_s);
  }
}

// WebVTT has markup of its own: in a cue's text it must be escaped.
function cueText(text) {
  return text.slice(0, 300).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
