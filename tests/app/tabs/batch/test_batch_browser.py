"""The batch tab in a browser: start, leave and come back, wait in line, sort, open a video, download, hostile names.

A training run is followed while it trains.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.app.tabs.batch.training.test_training import HOSTILE as MARKUP
from tests.app.tabs.batch.training.test_training import write_folder
from tests.support.data.batches import copies, write_split
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, open_page, run, serve, wait_for_status

HOSTILE = "<img src=x onerror=window.hacked=1> {{1+1}} ${1+1}"
STATUS = "#batch_status [role=status]"
TRAINING = "#training_said [role=status]"
pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_folder(folder / "tuned", step=150)
    return folder


@pytest.fixture(scope="module")
def address(
    tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory, runs: Path
) -> Iterator[str]:
    """Serve four videos, one with a hostile name, one that is damaged."""
    folder = tmp_path_factory.mktemp("split")
    videos = copies(demo_manifest, folder, 4)
    videos[1]["video_id"] = HOSTILE
    (folder / "v2.mp4").write_bytes(b"noise")
    manifest = write_split(folder, *videos).rename(folder / "test.json")
    with serve(data=manifest, checkpoint=tiny_folder, runs=runs) as url:
        yield url


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    window = open_batch(browser, address)
    yield window
    window.close()


def open_batch(browser: Browser, address: str) -> Page:
    window = browser.new_page(viewport={"width": 1440, "height": 900})
    show_batch(window, address)
    return window


def show_batch(window: Page, address: str) -> None:
    open_page(window, address)
    window.get_by_role("tab", name="Batch").click()
    wait_for(window, ".")


def wait_for(page: Page, pattern: str) -> str:
    return wait_for_status(page, pattern, status=STATUS, timeout_s=120)


def start(page: Page, name: str) -> None:
    page.fill("#run_name textarea, #run_name input", name)
    page.click("#start")


def choose(page: Page, box: str, option: str, *, beside: str = "") -> None:
    """Choose an option; a list that was open before it came to hold the option is opened again.

    With ``beside``, wait for a list that has this option too: Gradio takes a choice by its place in the list, which a
    list that comes between the look and the click would give to another option.
    """
    for _ in range(20):
        page.click(f"#{box} input")
        with suppress(PlaywrightTimeout):
            page.get_by_role("option", name=beside or option, exact=True).wait_for(timeout=3000)
            page.get_by_role("option", name=option, exact=True).click(timeout=3000)
            return
        if page.input_value(f"#{box} input") == option:
            return  # on a busy machine a click can take effect and time out
        page.keyboard.press("Escape")
        page.locator("#title").click()
    raise AssertionError(f"{box} does not offer {option}")


def cells(page: Page) -> list[str]:
    script = "[...document.querySelectorAll('#videos [data-testid$=\"-0\"]')].map((cell) => cell.textContent.trim())"
    texts: list[str] = page.evaluate(script)
    return [text for text in texts if text]


@pytest.mark.slow
def test_a_run_is_left_and_come_back_to_and_a_row_opens_the_player(
    page: Page, browser: Browser, address: str, runs: Path
) -> None:
    start(page, "first")
    wait_for(page, "^(⚠ )?(Done: )?first[:,] ")
    page.close()
    page = open_batch(browser, address)
    assert "1 of them failed" in wait_for(page, "Done: first, 4 videos")
    assert {"v0", "v3", "<img src=x…"} <= set(cells(page))  # the hostile name, shortened
    with page.expect_download() as download:
        page.get_by_role("button", name="videos.csv").click()
    assert download.value.suggested_filename == "first-videos.csv"
    rows = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    kept = (runs / "first" / "videos.csv").read_text(encoding="utf-8").splitlines()
    assert all(row.startswith(start) for row, start in zip(rows, kept, strict=True)), "with its provenance"
    assert "run first · split test.json · model " in page.locator("#origin summary").inner_text()
    choose(page, "order", "only failed")
    page.wait_for_function("!document.querySelector('#videos').textContent.includes('v3')")
    choose(page, "order", "as in the split")
    page.locator("#videos [data-testid^=cell]", has_text="v3").first.click()
    wait_for_status(page, "^v3 in the run first")
    page.wait_for_function("document.querySelector('.ss')?.inspect().video === 'v3'")
    assert inspect(page)["video"] == "v3"
    page.keyboard.press("(")  # beyond the damaged one
    wait_for_status(page, "^<img .* in the run first")
    page.get_by_role("tab", name="Batch").click()
    page.get_by_role("tab", name="Charts").click()
    page.get_by_role("tab", name="Scores").click()
    score = json.loads((runs / "first" / "metrics.json").read_text(encoding="utf-8"))["scores"]["missing_rate"]
    row = page.locator("#corpus tr", has_text="missing_rate")
    assert f"{score:.3f}" in row.inner_text()
    assert "without a response" in (row.get_attribute("data-hint") or "")
    shutil.copytree(runs / "first", runs / "again")
    page.get_by_role("tab", name="Compare").click()
    choose(page, "other", "again")
    wait_for_status(page, "^A is first, B is again; 3 videos", status="#compared [role=status]")
    page.locator("#compared_videos [data-testid^=cell]", has_text="v3").first.click()
    wait_for_status(page, "^v3 in the run first, .*; the lanes of the run again are below")
    page.wait_for_function("document.querySelector('.ss')?.inspect().video === 'v3'")
    assert page.evaluate("window.hacked") is None
    page.close()


@pytest.mark.slow
def test_videos_are_filtered_kept_as_a_slice_and_scored_alone(page: Page) -> None:
    page.set_default_timeout(120_000)
    start(page, "first")
    wait_for(page, "^(⚠ )?Done: first, 4 videos")
    page.wait_for_function("document.querySelector('#videos').textContent.includes('v3')")
    page.wait_for_function(
        """() => {
            const cell = document.querySelector("#videos [data-testid='cell-0-1'] span");
            if (!cell) return false;
            const [of, title] = [cell, document.querySelector('#title')].map((found) => getComputedStyle(found));
            return of.fontFamily === title.fontFamily && of.textAlign === 'right';
        }"""
    )
    choose(page, "only", "not run: failed (1)")
    only_v2 = "/^(?!.*v3).*v2/s.test(document.querySelector('#videos').textContent)"
    page.wait_for_function(only_v2)
    assert cells(page)[1:] == ["v2"]
    page.get_by_role("tab", name="Scores").click()
    page.get_by_role("tab", name="Videos", exact=True).click()
    page.wait_for_function(only_v2)  # what was chosen stays
    page.fill("#slice_name textarea, #slice_name input", "lost ones")
    page.click("#save_slice")
    page.wait_for_function("document.querySelector('#slice_scores').textContent.includes('lost ones: 1 video saved')")
    page.click("#score_slice")
    page.wait_for_function("document.querySelector('#slice_scores h3')?.textContent.startsWith('lost ones: 0 of 4')")


def begin_sweep(window: Page) -> None:
    """Run each point of the largest grid of the run ``first``, and wait until it is under way."""
    choose(window, "batch_runs", "first")
    window.get_by_role("tab", name="Thresholds").click()
    window.wait_for_selector("#heat .main-svg[role=img]")
    choose(window, "size", "19")
    wait_for_status(window, "(Best: |present thresholds)", status="#swept .status-line")
    window.click("#exact")
    window.wait_for_function("/[1-9]\\d* of \\d+ runs/.test(document.querySelector('#sweep_progress').textContent)")


@pytest.mark.slow
def test_a_sweep_ends_with_cancel_or_its_window_and_keeps_nobody_waiting(
    page: Page, browser: Browser, address: str
) -> None:
    page.set_default_timeout(120_000)
    start(page, "first")
    wait_for(page, "^(⚠ )?(Done: )?first[:,] ")
    begin_sweep(page)
    other = open_batch(browser, address)
    other.set_default_timeout(120_000)
    other.get_by_role("tab", name="Player").click()
    run(other)  # no run of another window waits for the sweep
    assert "runs" in (page.text_content("#sweep_progress") or "")
    page.close()
    other.get_by_role("tab", name="Batch").click()
    begin_sweep(other)  # nor does another sweep, once the window is closed
    other.click("#cancel_sweep")
    other.wait_for_function("document.querySelector('#sweep_progress').textContent.includes('Cancelled.')")
    other.close()


@pytest.mark.slow
def test_a_training_run_is_followed_until_it_ends_and_its_texts_are_not_markup(page: Page, runs: Path) -> None:
    page.get_by_role("tab", name="Training").click()
    wait_for_status(page, "^Choose a split to check", status=TRAINING)
    assert page.locator("#training_losses .main-svg").count() == 0, "there are no curves before training"
    choose(page, "training_source", "training run: tuned")
    wait_for_status(page, "^At step 150 of 200, .*2 have a problem and are listed first", status=TRAINING)
    page.locator("#training_losses .main-svg").first.wait_for()
    assert MARKUP in page.locator("#training_clips").inner_text()
    write_folder(runs / "tuned", step=200)
    wait_for_status(page, "^Finished after step 200 of 200", status=TRAINING)
    assert page.evaluate("window.hacked === undefined")
