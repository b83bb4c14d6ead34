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
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, serve, wait_for_status
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
    wait_for_status(window, "Press Run|Upload a video")  # the page loads again by itself
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


def test_a_disagreement_opens_the_player_at_its_time(page: Page) -> None:
    enter(page, "Agreement")
    page.locator("#to_settle [data-testid^=cell]", has_text="verdicts differ").first.click()
    wait_for_status(page, "^v0, 0:06, its reference only at 0:02.0")
    page.wait_for_function("Math.abs(document.querySelector('#video video')?.currentTime - 2) < 0.01")
    page.wait_for_function("document.querySelector('.ss').inspect().event?.time === 2")
    assert inspect(page)["tab"] == "review"
    assert inspect(page)["video"] == "v0"


def test_the_zip_holds_what_the_command_line_writes(page: Page, reviewed: ReviewedSplit, tmp_path: Path) -> None:
    enter(page, "Export and import")
    page.click("#reviewed_run input")
    page.get_by_role("option", name="a", exact=True).click()
    wait_for_status(page, "18 events", status=STATUS)
    page.click("#write")
    wait_for_status(page, "test-csv.zip has 3 videos", status="#exported [role=status]")
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "test-csv.zip"
    store = ["--reviews", str(reviewed.store)]
    export(["write", str(reviewed.runs / "a"), "--format", "csv", "--out", str(tmp_path), *store])
    archive = zipfile.ZipFile(download.value.path())
    found = {Path(name).name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    assert found == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    rows = list(csv.DictReader(io.StringIO(found["verdicts.csv"].decode())))
    assert {row["reviewer"] for row in rows} == {"ann", HOSTILE}
    page.click("#content input")
    page.get_by_role("option", name="everything, as json", exact=True).click()
    wait_for_status(page, "^The contents of the file are listed here", status="#exported [role=status]")
    assert page.locator("#download").is_disabled(), "the file is that of other inputs"


def test_a_document_without_a_tier_is_imported_only_after_the_box_was_ticked_for_it(
    page: Page, reviewed: ReviewedSplit, tmp_path: Path
) -> None:
    export(
        ["write", str(reviewed.runs / "a"), "--format", "eaf", "--out", str(tmp_path), "--reviews", str(reviewed.store)]
    )
    document = tmp_path / "v2.eaf"
    text = document.read_text(encoding="utf-8")
    document.write_text(text.replace('"corrected: assistant"', '"said"'), encoding="utf-8")
    enter(page, "Export and import")
    imported, box = "#imported [role=status]", page.locator("#allow_deletions input")
    for _ in range(2):  # the box counts for one import
        page.set_input_files("#documents input[type=file]", document)
        wait_for_status(page, "⚠ v2.eaf has no tier 'corrected: assistant'", status=imported)
        box.check()
        page.set_input_files("#documents input[type=file]", document)
        wait_for_status(page, "^v2.eaf: .* imported for ann", status=imported)
        page.wait_for_function("!document.querySelector('#allow_deletions input').checked")


def test_a_late_reply_to_opening_the_tab_does_not_undo_blind_mode(page: Page) -> None:
    enter(page)
    page.get_by_role("tab", name="Player").click()
    page.evaluate("""() => {
        const send = window.fetch, waiting = [];
        window.held = 0;
        window.isHolding = true;
        window.fetch = (...asked) => {
            const isOfReviews = /queue.join/.test(asked[0]) && String(asked[1]?.body).includes('"ann"');
            if (!window.isHolding || !isOfReviews) return send(...asked);
            window.held += 1;
            return new Promise((answer) => waiting.push(() => send(...asked).then((found) => (answer(found), found))));
        };
        window.sendHeld = async () => { for (const go of waiting) await go(); };
    }""")
    page.get_by_role("tab", name="Reviews").click()
    page.wait_for_function("window.held")
    page.evaluate("window.isHolding = false")
    page.check("#blind input")
    wait_for_status(page, "Blind mode: only the reviews of ann are shown", status=STATUS)
    page.evaluate("window.sendHeld()")
    page.wait_for_timeout(1500)  # longer than a reply takes
    assert page.is_checked("#blind input")
    assert page.evaluate("document.querySelector('.ss-blind').checked")
    assert "Blind mode" in (page.locator(STATUS).text_content() or "")
    assert HOSTILE not in (page.text_content("#desk_progress") or "")
    page.uncheck("#blind input")
    wait_for_status(page, "3 to settle[.]$", status=STATUS)


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
    for place in ("2 of 3", "1 of 3"):
        page.keyboard.press("P")
        expect(hit).to_contain_text(place)
    page.wait_for_function("document.querySelector('.ss').inspect().event?.time === 0.5")
    page.click(".ss-verdict:has-text('unclear')")  # another reviewer said that it is correct
    page.wait_for_function("document.querySelector('.ss').inspect().saved")
    enter(page, "Agreement")
    wait_for_status(page, "4 to settle", status=STATUS)
    page.locator("#to_settle [data-testid^=cell]", has_text="verdicts differ").first.click()
    expect(hit).to_contain_text("1 of 4")
    assert inspect(page)["said"] == "", "it was about the verdict before"
    page.click(".ss-settle button:text-is('correct')")
    expect(hit).to_contain_text("2 of 4")  # it went on by itself
    for place in ("3 of 4", "4 of 4"):
        page.keyboard.press("N")
        expect(hit).to_contain_text(place)
    page.click(".ss-settle button:text-is('unclear')")
    page.wait_for_selector(".ss-settle:has-text('Settled by ann: unclear')")
    assert "the last of 4 to settle" in inspect(page)["said"]
    page.wait_for_function("document.querySelector('.ss').inspect().saved")
    enter(page, "Agreement")
    wait_for_status(page, "2 to settle", status=STATUS)
