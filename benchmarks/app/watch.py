"""Load of the browser while a video of 3 hours streams: 21,600 frames, a reference of 2,160 turns, 12 steps.

A script replaces the model and yields 80 frames per second; page, server and browser are real. Prints the load of the
browser's main thread without and with user input, the latency of clicks and keys and, as the last line, JSON.
``--minutes`` sets the length of the video and ``--rate`` the frames per second. Needs Chromium and the development
packages.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from playwright.sync_api import CDPSession, Page

from benchmarks.app.player import draw_pictures, open_meter, read_meter
from stepscope.engine.video.writer import write_h264
from stepscope.eval.data.writers import write_samples
from tests.support.pages.browser import STATUS, open_browser, open_page, serve, wait_for_status
from tests.support.pages.long_run import FPS, make_long_run

CHECKPOINT = Path(__file__).parents[2] / "assets" / "checkpoint"
PICTURE_S = 10.0
FRAMES_PER_TURN = 10
ROUNDS = 12
SLOW_MS = 100.0
SETTLE_S = 10.0
"""Wait after Stop, while the whole run is shown."""
WATCHED_SHARE, LAST_SHARE = 0.3, 0.8
"""Shares of the stream: before the first there is no user input; after the last nothing is measured."""
OBSERVE = """() => {
    window.answers = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
            if (entry.interactionId) window.answers.push([entry.name, entry.duration]);
        }
    }).observe({type: 'event', durationThreshold: 16});
}"""


def main() -> None:
    """Stream the video, use the page at the same time, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=180.0)
    parser.add_argument("--rate", type=float, default=80.0)
    options = parser.parse_args()
    num_frames = int(options.minutes * 60 * FPS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_h264(folder / "long.mp4", draw_pictures(int(num_frames / FPS / PICTURE_S)), fps=1 / PICTURE_S)
        num_turns = num_frames // FRAMES_PER_TURN
        sample = make_long_run(folder / "long.mp4", num_frames=num_frames, num_turns=num_turns).clip.sample
        assert sample is not None
        write_samples(folder / "test.json", [sample], file_format="manifest")
        script = {"FRAMES": num_frames, "TURNS": num_turns, "RATE": options.rate}
        os.environ.update({f"SCRIPTED_{key}": str(value) for key, value in script.items()})
        with (
            serve(
                data=folder / "test.json", checkpoint=CHECKPOINT, runs=folder / "runs", page="scripted_page"
            ) as address,
            open_browser() as browser,
        ):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            figures = _watch(page, address, num_frames / options.rate)
    print(json.dumps(figures))


@dataclass(frozen=True)
class _Moment:
    """The browser's counters of wall time and CPU time at one moment."""

    walls: CDPSession
    cpus: CDPSession
    began: float
    wall: Mapping[str, float]
    cpu: Mapping[str, float]

    @classmethod
    def now(cls, walls: CDPSession, cpus: CDPSession) -> "_Moment":
        return cls(walls, cpus, time.perf_counter(), read_meter(walls), read_meter(cpus))

    def measure(self) -> dict[str, float]:
        """Return the seconds since that moment, and the shares in which the main thread was busy, by kind of work."""
        lasted_s = time.perf_counter() - self.began
        used = {key: (value - self.wall[key]) / lasted_s for key, value in read_meter(self.walls).items()}
        cpu = (read_meter(self.cpus)["TaskDuration"] - self.cpu["TaskDuration"]) / lasted_s
        shares = {
            "busy_share": used["TaskDuration"],
            "script_share": used["ScriptDuration"],
            "layout_share": used["LayoutDuration"] + used["RecalcStyleDuration"],
            "cpu_share": cpu,
        }
        return {"lasted_s": round(lasted_s, 1), **{name: round(share, 4) for name, share in shares.items()}}


def _watch(page: Page, address: str, expected_s: float) -> dict[str, float]:
    open_page(page, address)
    walls, cpus = open_meter(page, "timeTicks"), open_meter(page, "threadTicks")
    page.evaluate(OBSERVE)
    page.click("#run")
    wait_for_status(page, "^Running")
    began = time.perf_counter()
    since = _Moment.now(walls, cpus)
    page.wait_for_timeout(1000 * WATCHED_SHARE * expected_s)
    watched = since.measure()
    since = _Moment.now(walls, cpus)
    for share in np.linspace(WATCHED_SHARE, LAST_SHARE, ROUNDS):
        page.wait_for_timeout(1000 * max(0.0, share * expected_s - (time.perf_counter() - began)))
        if time.perf_counter() - began <= LAST_SHARE * expected_s:
            _use(page)
    used = since.measure()
    status = page.locator(STATUS).text_content() or ""
    assert status.startswith("Running"), status
    reached = page.evaluate("document.querySelector('.ss').unpacked().times.length")
    streaming = _Answers.take(page)
    page.click("#stop")
    wait_for_status(page, "^Stopped")
    page.wait_for_timeout(1000 * SETTLE_S)
    page.evaluate("window.answers = []")
    for _ in range(ROUNDS):
        _use(page)
    stopped = _Answers.take(page)
    print(f"{reached} frames shown; {status}")
    for name, part in (("watched", watched), ("used", used)):
        busy, cpu_share = 100 * part["busy_share"], 100 * part["cpu_share"]
        print(f"{name} for {part['lasted_s']:.0f} s: main thread {busy:.1f} % busy, {cpu_share:.1f} % of a core")
    for name, answers in (("while the video streams", streaming), ("after Stop", stopped)):
        print(
            f"answers over 16 ms {name}: {answers.count}, of 100 ms and more: {answers.num_slow}; "
            f"median {answers.median_ms:.0f} ms, slowest {answers.slowest}"
        )
    return {
        "num_frames": reached,
        **{f"watched_{name}": value for name, value in watched.items()},
        **{f"used_{name}": value for name, value in used.items()},
        **{f"streaming_{name}": value for name, value in streaming.figures().items()},
        **{f"stopped_{name}": value for name, value in stopped.figures().items()},
    }


@dataclass(frozen=True)
class _Answers:
    """Durations of the browser's answers to input, from the event to the next paint, of 16 ms and more."""

    count: int
    num_slow: int
    median_ms: float
    slowest: list[tuple[str, float]]

    @classmethod
    def take(cls, page: Page) -> "_Answers":
        """Read the answers that the page recorded so far."""
        recorded: list[tuple[str, float]] = [(name, ms) for name, ms in page.evaluate("window.answers")]
        recorded.sort(key=lambda answer: -answer[1])
        return cls(
            count=len(recorded),
            num_slow=sum(ms >= SLOW_MS for _, ms in recorded),
            median_ms=float(np.median([ms for _, ms in recorded])) if recorded else 16.0,
            slowest=recorded[:5],
        )

    def figures(self) -> dict[str, float]:
        """Return the numbers for the JSON line."""
        slowest_ms = self.slowest[0][1] if self.slowest else 16.0
        return {
            "answers": self.count,
            "slow_answers": self.num_slow,
            "median_ms": self.median_ms,
            "slowest_ms": slowest_ms,
        }


def _use(page: Page) -> None:
    """Click on the tabs, seek, step, zoom and scroll the transcript."""
    for tab in ("curves", "rows"):
        page.click(f"[data-tab={tab}]", force=True)
        page.wait_for_timeout(300)
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    for share in (0.3, 0.6):
        page.mouse.click(box["x"] + 150 + share * (box["width"] - 164), box["y"] + 60)
        page.wait_for_timeout(300)
    for key in ("ArrowRight", "ArrowLeft", "+", "+", "-", "0", "l", "j"):
        page.keyboard.press(key)
        page.wait_for_timeout(150)
    page.hover(".ss-rows")
    for _ in range(5):
        page.mouse.wheel(0, 700)
        page.wait_for_timeout(100)


if __name__ == "__main__":
    main()
