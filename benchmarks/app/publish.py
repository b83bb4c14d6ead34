"""Size and speed of a published player of 200 videos of 10 minutes: 1,200 frames and 120 turns each.

The videos have one content under 200 ids. Prints the figures and, as the last line, JSON. Needs Chromium and the
development packages.
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page

from benchmarks.app.player import draw_pictures
from stepscope.engine.video.writer import write_h264
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.support.pages.browser import open_browser
from tests.support.pages.long_run import FPS, make_long_run
from tests.support.pages.published import Traffic, publish, serve_folder

NUM_VIDEOS, NUM_FRAMES, NUM_TURNS = 200, 1_200, 120
WEIGH = """() => performance.getEntriesByType('resource').reduce((all, one) => all + one.encodedBodySize, 0)"""


def main() -> None:
    """Publish the run, open it in a browser, and print the figures."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        run = _make_run(root)
        began = time.perf_counter()
        publish(run, root / "web" / "site", files="link")
        figures = {"write_s": time.perf_counter() - began}
        figures["table_kb"] = (root / "web/site/data/run.json").stat().st_size / 1e3
        figures["video_kb"] = (root / "web/site/data/0001-video-0.json").stat().st_size / 1e3
        figures["folder_mb"] = sum(path.stat().st_size for path in (root / "web").rglob("*") if path.is_file()) / 1e6
        with serve_folder(root / "web") as address, open_browser() as browser:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            figures |= _measure(page, f"{address}/site/")
    for label, value in figures.items():
        print(f"{label:24} {value:10.2f}")
    print(json.dumps(figures))


def _make_run(root: Path) -> RunFolder:
    write_h264(root / "long.mp4", draw_pictures(int(NUM_FRAMES / FPS)), fps=1)
    made = make_long_run(root / "long.mp4", num_frames=NUM_FRAMES, num_turns=NUM_TURNS)
    assert made.clip.sample is not None
    samples = [replace(made.clip.sample, video_id=f"video-{number}") for number in range(NUM_VIDEOS)]
    write_samples(root / "split.json", samples, file_format="manifest")
    with RunFolder.open(root / "run", {"split": str(root / "split.json"), "config": {}}) as run:
        for sample in samples:
            record = VideoRecord(video_id=sample.video_id, source=digest_sample(sample), num_frames=NUM_FRAMES)
            run.save_video(record, made.outputs)
    return RunFolder(root / "run")


def _measure(page: Page, address: str) -> dict[str, float]:
    """Return the seconds and the kilobytes of the table, of the first video and of the next one."""
    figures, traffic = {}, Traffic(page)
    began = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(f".videos tbody tr:nth-child({NUM_VIDEOS})")
    figures["table_s"], figures["table_page_kb"] = time.perf_counter() - began, page.evaluate(WEIGH) / 1e3
    began = time.perf_counter()
    page.click(".videos thead >> text=Failures")
    page.fill("input[type=search]", "video-7")
    page.wait_for_function("() => document.querySelectorAll('.videos tbody tr').length < 20")
    figures["sort_and_filter_s"] = time.perf_counter() - began
    for label, number in (("first", 77), ("next", 78)):
        began = time.perf_counter()
        page.goto(f"{address}?video=video-{number}")
        page.wait_for_selector(".ss-failure")
        figures[f"open_{label}_s"] = time.perf_counter() - began
        figures[f"open_{label}_kb"] = page.evaluate(WEIGH) / 1e3
        page.wait_for_function("() => document.querySelector('#video video').readyState >= 2")
        figures[f"picture_{label}_s"] = time.perf_counter() - began
    # a picture that still loads is given up when the next video opens
    assert [problem for problem in traffic.problems if not problem.startswith("net::ERR_ABORTED")] == []
    return figures


if __name__ == "__main__":
    main()
