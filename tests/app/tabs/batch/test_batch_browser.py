"""The batch tab in a browser: start, leave and come back, download, filter, open a video, hostile names."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.support.data.batches import copies, write_split
from tests.support.pages.browser import NEEDS_CHROMIUM, open_page, serve, wait_for_status

HOSTILE = "<img src=x onerror=window.hacked=1> {{1+1}} ${1+1}"
STATUS = "#batch_status [role=status]"
pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


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


def choose(page: Page, box: str, option: str) -> None:
    """Choose an option; a list that was open before it came to hold the option is opened again."""
    for _ in range(20):
        page.click(f"#{box} input")
        with suppress(PlaywrightTimeout):
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
    assert page.evaluate("window.hacked") is None
    page.close()
