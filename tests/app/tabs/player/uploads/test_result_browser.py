"""Results of MMDuet, uploaded with their video: no steps are invented, and decisions follow a moved threshold."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from stepscope.engine.decisions.policies import POLICIES
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, open_page, upload, wait_for_status
from tests.support.pages.thresholds import choose
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


def count_decisions(policy: str, threshold: float) -> int:
    return int(POLICIES[policy].find_triggers(SCORES, threshold, signal="speak", fps=2).sum())


def test_decisions_follow_the_threshold_and_the_rule_of_an_imported_signal(page: Page) -> None:
    page.click("#own_result button")
    page.set_input_files("#result input[type=file]", DATA / "mmduet.jsonl")
    said = wait_for_status(page, "with the results of mmduet.jsonl")
    assert "MMDuet files hold no thresholds" in said
    page.wait_for_function("document.querySelector('.ss').inspect().rows.length > 0")
    seen = inspect(page)
    kinds = [row["kind"] for row in seen["rows"]]
    assert "step" not in kinds, "its states are not known"
    assert kinds.count("trace") == 2
    page.locator(".ss-figure .plot-container").wait_for()
    assert page.locator(".ss-figure .legendtext").all_inner_texts() == [], "no threshold decides"
    assert page.evaluate("document.querySelector('#speak_threshold').inert"), "the run does not read it"
    found = [move(page, "PageDown") for _ in range(7)]
    assert found == [(value, count_decisions("above", value)) for value, _ in found]
    assert {number for _, number in found} > {0, 1}

    choose(page, "result_policy", "running-sum: the sum since the last decision is greater")
    page.fill("#result_threshold :is(input, textarea)", "2")
    page.click("#result_decide")
    page.wait_for_function("document.querySelector('.ss').inspect().runThresholds?.['signal-0'] === 2")
    sums = [move(page, key) for key in ("PageDown", "PageDown", "ArrowUp", "PageUp")]
    assert sums == [(value, count_decisions("running-sum", value)) for value, _ in sums]
    assert min(number for _, number in sums) >= 2, "the sum is reset at each decision"


def test_with_a_reference_its_steps_alone_are_shown(page: Page, tmp_path: Path) -> None:
    steps = [{"id": "S1", "name": "fill the kettle"}, {"id": "S2", "name": "boil the water"}]
    turns: list[dict[str, Any]] = [
        {"time_s": 1.0, "role": "update", "text": "S1->start"},
        {"time_s": 4.5, "role": "assistant", "text": "The kettle boils now."},
    ]
    video = {"video_id": "kettle", "fps": 2, "num_frames": 20, "goal": "make tea", "steps": steps, "turns": turns}
    (tmp_path / "split.json").write_text(json.dumps({"videos": [video]}))
    page.click("#own_result button")
    page.set_input_files("#result input[type=file]", DATA / "mmduet.jsonl")
    wait_for_status(page, "with the results of mmduet.jsonl")
    page.click("#own_reference button")
    page.set_input_files("#reference input[type=file]", tmp_path / "split.json")
    lanes = "document.querySelector('.ss').inspect().rows.filter(({ kind }) => kind === 'step')"
    page.wait_for_function(f"{lanes}.length === 2")
    page.keyboard.press("End")
    page.locator(".ss-now .ss-states", has_text="◐ in progress").wait_for()
    assert "states of the steps not known; in the reference:" in page.locator(".ss-now").inner_text()
    assert page.locator(".ss-wrong").count() == 0
