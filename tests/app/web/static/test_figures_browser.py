"""The menu of figures below the player."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from stepscope.app.web.payload import pack_run
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.reviews.played import judge, make_run

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("player")
    run = make_run(folder)
    write_h264(folder / "a.mp4", moving_square(100, shade=200), fps=10)
    (folder / "a.json").write_text(pack_run(run, judge(run)), encoding="utf-8")
    return folder


def test_a_button_asks_for_the_visible_range_in_the_chosen_look(page: Page) -> None:
    page.wait_for_selector(".ss-has-run")
    page.keyboard.press("+")  # half of the video, from its start
    page.select_option(".ss-figureWidth", "85mm")
    page.select_option(".ss-figureTheme", "dark")
    page.click("[data-figure=pdf]")
    sent = page.locator("#let_go textarea, #let_go input")
    expect(sent).to_have_value(re.compile(r"^pdf 85mm dark from 0\.00 to 5\.00 corrected (False|false);$"))
    expect(page.locator(".ss-said")).to_have_text("Drawing PDF of 0:00.0 to 0:05.0.")
