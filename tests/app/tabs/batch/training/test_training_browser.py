"""The Training tab in a browser: a training run is followed while it trains, and texts stay texts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.app.tabs.batch.test_batch_browser import choose, open_batch
from tests.app.tabs.batch.training.test_training import HOSTILE, write_folder
from tests.support.pages.browser import NEEDS_CHROMIUM, serve, wait_for_status

STATUS = "#training_said [role=status]"
CURVES = "#training_losses .main-svg"
pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_folder(folder / "tuned", step=150)
    return folder


@pytest.fixture(scope="module")
def address(tiny_folder: Path, demo_manifest: Path, runs: Path) -> Iterator[str]:
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=runs) as url:
        yield url


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    window = open_batch(browser, address)
    window.get_by_role("tab", name="Training").click()
    wait_for_status(window, "^Choose a split to check", status=STATUS)
    yield window
    window.close()


def test_a_run_is_followed_until_it_ends_and_its_texts_are_not_markup(page: Page, runs: Path) -> None:
    assert page.locator(CURVES).count() == 0, "there are no curves before training"
    choose(page, "training_source", "training run: tuned")
    wait_for_status(page, "^At step 150 of 200, .*2 have a problem and are listed first", status=STATUS)
    page.locator(CURVES).first.wait_for()
    assert HOSTILE in page.locator("#training_clips").inner_text()
    write_folder(runs / "tuned", step=200)
    wait_for_status(page, "^Finished after step 200 of 200", status=STATUS)
    assert page.evaluate("window.hacked === undefined")
