"""A player that reviewers use, in a browser: its folder, and what a test does on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page

from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import inspect, wait_until_drawn
from tests.support.reviews.played import judge, make_run, write_reviewed


def make_folder(folder: Path) -> Path:
    """Write a video, its run and the split that it is from."""
    run = make_run(folder)
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    write_reviewed(folder / "a.json", run, judge(run))
    return folder


def show_player(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(".ss-row")
    page.wait_for_function("document.querySelector('#video video')?.readyState >= 2")


def name_reviewer(page: Page, name: str) -> None:
    page.click("[data-tab=review]")
    page.fill(".ss-who", name)
    page.press(".ss-who", "Enter")
    page.wait_for_function("!document.querySelector('.ss').inspect().isAsking")
    wait_until_drawn(page)


@contextmanager
def watched(page: Page) -> Iterator[Page]:
    """Watch a page: nothing may be asked of another host, and no script may fail."""
    asked, wrong = list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    assert {urlsplit(url).hostname for url in asked if not url.startswith(("data:", "blob:"))} <= {"127.0.0.1"}
    assert wrong == [], wrong


def wait_until_saved(page: Page) -> dict[str, Any]:
    page.wait_for_function(
        "(() => { const seen = document.querySelector('.ss').inspect(); return seen.saved && !seen.waiting; })()"
    )
    wait_until_drawn(page)
    return inspect(page)


def press(page: Page, *keys: str) -> dict[str, Any]:
    for key in keys:
        page.keyboard.press(key)
        wait_until_drawn(page)
    return wait_until_saved(page)


def go_to(page: Page, kind: str, text: str) -> dict[str, Any]:
    """Step to an event by its keys; return it, or the side of its pair that was asked for."""
    page.keyboard.press("Home")
    wait_until_drawn(page)
    for _ in range(60):
        event: dict[str, Any] | None = inspect(page)["event"]
        for side in [event, event.get("pair")] if event else []:
            if side and side["kind"] == kind and side["text"].startswith(text):
                return dict(side)
        page.keyboard.press("w")
        wait_until_drawn(page)
    raise AssertionError(f"there is no event {kind} {text}")
