"""The batch tab in a browser without a run of its own: whose settings the form has, and what narrow windows show."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from eval.data.loading import read_split
from eval.runs.batch import build_run_settings, parse_devices
from eval.runs.folder import RunFolder, VideoRecord, digest_sample, write_settings
from tests.app.batch.test_batch_browser import STATUS, choose, open_batch
from tests.app.batch.test_scoring import repeat
from tests.support.batches import copies, make_worker_config, write_scores, write_split
from tests.support.browser import NEEDS_CHROMIUM, serve, wait_for_status

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def address(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the split ``other`` with a run ``prompt`` and a run ``late`` of it; the form begins with another split."""
    folder = tmp_path_factory.mktemp("layout")
    videos = [{**video, "fps": 2.0, "num_frames": 12} for video in copies(demo_manifest, folder, 3)]
    split = write_split(folder, *videos).rename(folder / "other.json")
    work = make_worker_config(tiny_folder)
    for name, speak, late in (("prompt", 0.25, 0), ("late", 0.75, 3)):
        config = replace(work.config, speak_threshold=speak)
        (folder / "runs" / name).mkdir(parents=True)
        made = build_run_settings(read_split(split), replace(work, config=config), parse_devices("cpu:2"))
        write_settings(folder / "runs" / name, made)
        for sample in read_split(split).samples:
            record = VideoRecord(video_id=sample.video_id, source=digest_sample(sample), num_frames=12)
            RunFolder(folder / "runs" / name).save_video(record, repeat(sample, late=late))
        write_scores(split, folder / "runs" / name)
    more = ["--split", str(split)]
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=folder / "runs", more=more) as url:
        yield url


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    window = open_batch(browser, address)
    yield window
    window.close()


def entries(page: Page) -> tuple[str, str, str]:
    split, speak, devices = (
        page.locator(f"#{box}").first.input_value()
        for box in ("split input", "batch_speak input[type=number]", "devices input")
    )
    return split, speak, devices


def test_the_form_is_a_new_runs_until_the_settings_of_the_run_shown_are_asked_for(page: Page) -> None:
    page.locator("#batch_speak input[type=number]").fill("0.6")
    page.locator("#batch_speak input[type=number]").press("Tab")
    choose(page, "batch_runs", "late")
    page.wait_for_function(
        "/run late · split other .* speak 0.75 /.test(document.querySelector('#origin').textContent)"
    )
    assert page.locator(".setup:visible h3").first.inner_text() == "New run"
    assert entries(page) == ("test", "0.6", "auto"), "what was typed stays"
    page.click("#use_settings")
    wait_for_status(page, "^⚠ The form has the settings of late, but ", status=STATUS)  # made with short answers
    assert entries(page) == ("other", "0.75", "cpu:2")


def test_failures_are_the_first_that_is_compared(page: Page) -> None:
    choose(page, "batch_runs", "prompt")
    page.get_by_role("tab", name="Compare").click()
    choose(page, "other", "late")
    wait_for_status(page, "^A is prompt, B is late; 3 videos", status="#compared [role=status]")
    first = page.locator("#compared_failures tr[data-hint]").first
    assert first.inner_text().split()[0] == "Failures"
    above, turns = first.bounding_box(), page.locator("#turns").bounding_box()
    assert above is not None
    assert turns is not None
    assert above["y"] < turns["y"]


@pytest.mark.parametrize("width", [1024, 1440, 1920])
def test_nothing_is_cut_off(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    choose(page, "batch_runs", "prompt")
    page.wait_for_function("document.querySelector('#videos').textContent.includes('v2')")
    cut = """(parts) => [...document.querySelectorAll(parts)].filter((part) => part.checkVisibility())
        .filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.textContent || part.value)"""
    assert page.evaluate(cut, "#videos :is([data-testid^=header-] .header, [data-testid^=cell-])") == []
    assert page.evaluate(cut, "#downloads button") == []
    page.get_by_role("tab", name="Scores").click()
    page.locator("#corpus tr[data-hint]").first.hover()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "hints too are on the page"
    page.get_by_role("tab", name="Charts").click()
    page.locator(".vega-embed").nth(5).wait_for()
    widths = page.evaluate("[...document.querySelectorAll('.vega-embed')].map((one) => one.clientWidth)")
    assert max(widths) < min(widths) + 10, "all charts are of one size"
    page.get_by_role("tab", name="Thresholds").click()
    page.locator(".heat").wait_for()
    assert page.evaluate(cut, "#metric input") == []
