"""Responses are spoken when the playhead reaches them: after the switch, during playback, and not after a seek."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page

from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.reviews.played import judge, make_run, write_reviewed

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speech")
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    run = make_run(folder)
    write_reviewed(folder / "a.json", run, judge(run))
    return folder


def play_until(page: Page, time_s: float) -> None:
    page.keyboard.press(" ")
    page.wait_for_function("(end) => document.querySelector('.ss').inspect().time >= end", arg=time_s)
    page.keyboard.press(" ")


def test_responses_are_spoken_when_they_occur_once_that_is_switched_on(page: Page) -> None:
    spoken: list[str] = []
    statuses: list[int] = []

    def note(response: object) -> None:
        url = urlsplit(getattr(response, "url", ""))
        if url.path == "/speech":
            spoken.append(parse_qs(url.query)["text"][0])
            statuses.append(getattr(response, "status", 0))

    page.on("response", note)
    page.keyboard.press("Home")
    play_until(page, 1.3)
    assert spoken == []
    page.keyboard.press(";")
    assert page.locator(".ss-speech").get_attribute("aria-pressed") == "true"
    assert inspect(page)["said"].startswith("The model's responses are spoken")
    page.keyboard.press("Home")
    with page.expect_response("**/speech?*"):
        play_until(page, 1.6)
    assert [text.strip() for text in spoken] == ["Now the wheel."]
    assert statuses[0] in (200, 206)
    for _ in range(2):  # 10 s, over the second response
        page.keyboard.press("l")
    page.wait_for_function("document.querySelector('.ss').inspect().time > 6")
    page.keyboard.press("j")
    page.wait_for_function("document.querySelector('.ss').inspect().time > 4")
    with page.expect_response("**/speech?*"):
        play_until(page, 6.2)
    assert [text.strip() for text in spoken][1:] == ["Now the roof."]
    page.click(".ss-speech")
    assert page.locator(".ss-speech").get_attribute("aria-pressed") == "false"
