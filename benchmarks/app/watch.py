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
from itertools import pairwise
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
WATCHED_SHARE, LAST_SHARE = 0.3, 0.8
"""Shares of the stream: before the first there is no user input; after the last nothing is measured."""
OBSERVE = """() => {
    window.answers = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
            if (entry.interactionId) window.answers.push(entry.duration);
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


def _watch(page: Page, address: str, expected_s: float) -> dict[str, float]:
    open_page(page, address)
    meter = open_meter(page, "timeTicks")
    page.evaluate(OBSERVE)
    page.click("#run")
    wait_for_status(page, "^Running")
    began, busy_s = time.perf_counter(), [_read_busy_s(meter)]
    page.wait_for_timeout(1000 * WATCHED_SHARE * expected_s)
    lasted_s, busy_s = [time.perf_counter() - began], [*busy_s, _read_busy_s(meter)]
    for share in np.linspace(WATCHED_SHARE, LAST_SHARE, ROUNDS):
        page.wait_for_timeout(1000 * max(0.0, share * expected_s - (time.perf_counter() - began)))
        if time.perf_counter() - began <= LAST_SHARE * expected_s:
            _use(page)
    lasted_s, busy_s = [*lasted_s, time.perf_counter() - began - lasted_s[0]], [*busy_s, _read_busy_s(meter)]
    status = page.locator(STATUS).text_content() or ""
    assert status.startswith("Running"), status
    reached = page.evaluate("document.querySelector('.ss').unpacked().times.length")
    answers = sorted(page.evaluate("window.answers"))
    shares = [(end - start) / lasted for (start, end), lasted in zip(pairwise(busy_s), lasted_s, strict=True)]
    print(f"{reached} frames shown; {status}")
    print(f"main thread {100 * shares[0]:.1f} % busy without input, {100 * shares[1]:.1f} % with it")
    print(f"answers over 16 ms: {len(answers)}; median {np.median(answers or 16):.0f} ms, slowest {answers[-5:]}")
    return {
        "num_frames": reached,
        "watched_busy_share": round(shares[0], 4),
        "used_busy_share": round(shares[1], 4),
        "answers": len(answers),
        "slowest_ms": answers[-1] if answers else 16.0,
    }


def _read_busy_s(meter: CDPSession) -> float:
    return read_meter(meter)["TaskDuration"]


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
