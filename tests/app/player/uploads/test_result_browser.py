"""Results of MMDuet, uploaded with their video: decisions follow a moved threshold."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from stepscope.engine.decisions.policies import POLICIES
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, open_page, upload, wait_for_status
from tests.support.paths import ROOT

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]
DATA = ROOT / "tests" / "data" / "imports"
SCORES = [entry["informative_score"] for entry in json.loads((DATA / "mmduet.jsonl").read_text())["debug_data"]]


@pytest.fixture
def page(browser: Browser, tiny_page: str, tmp_path: Path) -> Iterator[Page]:
    """Open the page in a new window, and upload a video of 10 s."""
    write_h264(tmp_path / "kettle.mp4", moving_square(100, shade=90), fps=10)
    window = browser.new_page(viewport={"width": 1440, "height": 900})
    open_page(window, tiny_page)
    upload(window, tmp_path / "kettle.mp4", "^kettle.mp4, 0:10. .* then press Run")
    yield window
    window.close()


def move(page: Page, key: str) -> tuple[float, int]:
    """Move the threshold of the first signal with a key; return it, and the number of decisions in the preview."""
    before = inspect(page)["thresholds"].get("signal-0")
    page.locator("[aria-label='informative_score threshold']").focus()
    page.keyboard.press(key)
    page.wait_for_function(
        "(before) => (document.querySelector('.ss').inspect().thresholds['signal-0'] ?? null) !== before", arg=before
    )
    seen = inspect(page)
    return seen["thresholds"]["signal-0"], seen["counts"]["signal-0"]["hits"]


def count_decisions(threshold: float) -> int:
    return int(POLICIES["above"].find_triggers(SCORES, threshold, signal="speak", fps=2).sum())


def test_decisions_follow_the_threshold_of_an_imported_signal(page: Page) -> None:
    page.click("#own_result button")
    page.set_input_files("#result input[type=file]", DATA / "mmduet.jsonl")
    said = wait_for_status(page, "with the results of mmduet.jsonl")
    assert "MMDuet files hold no thresholds" in said
    page.wait_for_function("document.querySelector('.ss').inspect().rows.length > 0")
    seen = inspect(page)
    kinds = [row["kind"] for row in seen["rows"]]
    assert "step" not in kinds, "its states are not known"
    assert kinds.count("trace") == 2
    assert page.evaluate("document.querySelector('#speak_threshold').inert"), "the run does not read it"
    found = [move(page, "PageDown") for _ in range(7)]
    assert found == [(value, count_decisions(value)) for value, _ in found]
    assert {number for _, number in found} > {0, 1}
