"""The reviews tab in a browser, of a server that asks for a password: agreement, a click, a download, blind mode."""

import csv
import io
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.app.cli.stepscope import EXPORTS
from stepscope.engine.cli.program import run_program
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, serve, wait_for_status, wait_until_open
from tests.support.reviews.desks import HOSTILE, ReviewedSplit, write_reviewed

export = partial(run_program, EXPORTS, prog="stepscope export")

STATUS = "#desk_status [role=status]"
pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def reviewed(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> ReviewedSplit:
    return write_reviewed(demo_manifest, tmp_path_factory.mktemp("reviewed"))


@pytest.fixture(scope="module")
def address(tiny_folder: Path, reviewed: ReviewedSplit) -> Iterator[str]:
    users = reviewed.runs / "users"
    users.write_text("ann:open sesame\n", encoding="utf-8")
    with serve(data=reviewed.split, checkpoint=tiny_folder, runs=reviewed.runs, more=["--auth", str(users)]) as url:
        yield url


@pytest.fixture(scope="module")
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Sign in as ann and open the tab."""
    window = browser.new_page(viewport={"width": 1440, "height": 900})
    window.goto(address)
    for password in ("wrong", "open sesame"):
        window.get_by_label("username").fill("ann")
        window.get_by_label("password").fill(password)
        with window.expect_response("**/login*") as answer:
            window.get_by_role("button", name="Login").click()
        assert answer.value.ok == (password != "wrong")
        assert window.locator("#rooms").count() == 0 or password != "wrong"
    wait_until_open(window)  # the page loads again by itself
    yield window
    window.close()


def enter(page: Page, tab: str = "Progress") -> None:
    page.get_by_role("tab", name="Player").click()
    page.get_by_role("tab", name="Reviews").click()
    wait_for_status(page, "events", status=STATUS)
    page.get_by_role("tab", name=tab).first.click()  # another one, of the same name, measures the width


def test_who_signed_in_sees_progress_and_agreement_and_hostile_names_stay_text(page: Page) -> None:
    enter(page)
    page.wait_for_function("document.querySelector('#reviewer textarea, #reviewer input').value === 'ann'")
    assert page.locator(STATUS).text_content() == "test: 15 events (reference turns) in 3 videos, 3 to settle."
    page.wait_for_function("document.querySelector('#reviewed_videos').textContent.includes('unclear 1')")
    assert HOSTILE in (page.text_content("#desk_progress") or "")
    assert HOSTILE in (page.text_content("#reviewed_videos") or "")
    page.get_by_role("tab", name="Agreement").first.click()
    row = page.locator("#agreement tr", has_text="all verdicts")
    assert row.inner_text().split("\t")[:4] == ["all verdicts", "4", "0.750", "0.556"]
    assert page.evaluate("window.hacked") is None


def test_a_zip_with_the_reviews_is_downloaded(page: Page) -> None:
    enter(page, "Export and import")
    page.click("#reviewed_run input")
    page.get_by_role("option", name="a", exact=True).click()
    wait_for_status(page, "18 events", status=STATUS)
    with page.expect_download() as download:
        page.click("#download")
    wait_for_status(page, "test-csv.zip has 3 videos", status="#exported [role=status]")
    archive = zipfile.ZipFile(download.value.path())
    rows = list(csv.DictReader(io.StringIO(archive.read("test-csv/verdicts.csv").decode())))
    assert {row["reviewer"] for row in rows} == {"ann", HOSTILE}


def test_videos_are_assigned_and_done_by_a_key_and_a_disagreement_is_settled(page: Page) -> None:
    enter(page, "Assign")
    for name in ("ann", "ben"):
        page.fill("#assignees input", name)
        page.keyboard.press("Enter")
    page.click("#assign")
    wait_for_status(page, "3 videos of 3 assigned, 1 to several reviewers", status="#assign_said [role=status]")
    page.get_by_role("tab", name="Queue").first.click()
    page.click("#queue_next")
    page.wait_for_selector(".ss-queue .ss-finish")
    first = inspect(page)["video"]
    page.keyboard.press("!")
    page.wait_for_function("(first) => document.querySelector('.ss').inspect().video !== first", arg=first)
    enter(page, "Queue")
    wait_for_status(page, "^ann: 1 of 2 videos done, 1 left", status="#queue_said [role=status]")
    page.get_by_role("tab", name="Agreement").first.click()
    page.locator("#to_settle [data-testid^=cell]", has_text="verdicts differ").first.click()
    hit = page.locator(".ss-hit")
    expect(hit).to_contain_text("3 of 3 to settle")
    expect(hit).to_be_visible()  # until then the table has the keys
    for place, key in (("2 of 3", "P"), ("3 of 3", "N")):
        page.keyboard.press(key)
        expect(hit).to_contain_text(place)
    page.click(".ss-settle button:text-is('unclear')")
    page.wait_for_selector(".ss-settle:has-text('Settled by ann: unclear')")
    assert "the last of 3 to settle" in inspect(page)["said"]
    page.wait_for_function("document.querySelector('.ss').inspect().saved")
    enter(page, "Agreement")
    wait_for_status(page, "2 to settle", status=STATUS)
    page.get_by_role("tab", name="Player").first.click()
    page.keyboard.press("P")
    expect(hit).to_contain_text("2 of 3 to settle")  # in the list that was opened
