"""The player with data of two videos, watched for foreign requests and script errors."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from stepscope.app.window.payload import pack_run
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import wait_until_drawn
from tests.support.reviews.played import HOSTILE, judge, make_run


def write_players(folder: Path) -> None:
    """Write the data of two videos, of hostile texts, and of nothing."""
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    write_h264(folder / "b.mp4", moving_square(40, shade=190), fps=10)
    run = make_run(folder)
    (folder / "a.json").write_text(pack_run(run, judge(run)), encoding="utf-8")
    other = replace(run, clip=replace(run.clip, name="b", path=folder / "b.mp4", sample=None, duration_s=4.0))
    other = replace(other, outputs=tuple(replace(output, latency_ms=0.0) for output in run.outputs[:8]))
    (folder / "b.json").write_text(pack_run(other), encoding="utf-8")
    hostile = make_run(folder, text=HOSTILE)
    (folder / "hostile.json").write_text(pack_run(hostile, judge(hostile)), encoding="utf-8")
    (folder / "none.json").write_text("", encoding="utf-8")


def show(page: Page, name: str) -> None:
    page.evaluate("(() => { const run = document.querySelector('.ss').unpacked(); if (run) run.isOld = true; })()")
    page.click(f"#{name}")
    wanted = "!run" if name == "none" else "run && !run.isOld"
    page.wait_for_function(f"(() => {{ const run = document.querySelector('.ss').unpacked(); return {wanted}; }})()")
    wait_until_drawn(page)


def count_requests(page: Page) -> list[str]:
    requested = list[str]()
    page.on("request", lambda request: requested.append(request.url))
    return requested


def wait_for_time(page: Page, time_s: float) -> None:
    page.wait_for_function(f"Math.abs(document.querySelector('#video video').currentTime - {time_s}) < 0.03")


def cues(page: Page) -> list[list[Any]]:
    """Return start, end and text of the captions on the video."""
    found: list[list[Any]] = page.evaluate("""
        [...document.querySelector('#video video').textTracks].filter((track) => track.mode === 'showing')
            .flatMap((track) => [...track.cues]).map((cue) => [cue.startTime, cue.endTime, cue.text.trim()])""")
    return found
