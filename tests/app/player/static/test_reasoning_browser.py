"""The reasoning of a served model, folded in the panel of a frame."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page

from stepscope.app.window.payload import pack_run
from stepscope.engine.records import Reasoning
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.reviews.played import judge, make_run

pytestmark = NEEDS_CHROMIUM
THOUGHT = "The keel is <b>visible</b>.\n\ud800 Nothing to say."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reasoning")
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    run = make_run(folder)
    outputs = list(run.outputs)
    outputs[0] = replace(outputs[0], reasoning=Reasoning(text=THOUGHT, num_tokens=12, latency_ms=1500.0))
    outputs[1] = replace(outputs[1], reasoning=Reasoning(text=""))
    run = replace(run, outputs=tuple(outputs))
    (folder / "a.json").write_text(pack_run(run, judge(run)), encoding="utf-8")
    return folder


def test_the_reasoning_of_a_frame_is_folded_and_stays_open_at_the_next(page: Page) -> None:
    page.focus(".ss-canvas")
    page.keyboard.press("Home")
    fold = page.locator(".ss-reasoning")
    assert fold.locator("summary").inner_text() == "reasoning, 12 tokens, 1.5 s with the answer"
    assert not fold.locator("p").is_visible()
    fold.locator("summary").click()
    assert fold.locator("p").inner_text() == THOUGHT.replace("\ud800", "?")
    page.focus(".ss-canvas")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.ss-reasoning p').textContent === 'kept back by the server'")
    assert fold.locator("p").is_visible()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("!document.querySelector('.ss-reasoning')")
