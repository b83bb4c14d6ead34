"""Reviews that the server refuses, or does not answer."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.reviews.store import ReviewStore, read_review
from tests.support.pages.browser import NEEDS_CHROMIUM, hold_requests, inspect, release_requests
from tests.support.reviews.edges import leave, wait_for, write_edges
from tests.support.reviews.reviewing import name_reviewer, open_player, press, wait_until_saved

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


BELL = "\a"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edges")
    write_edges(folder)
    return folder


def test_what_the_server_refuses_of_one_name_holds_up_no_other(page: Page) -> None:
    leave(page, reviewer=f"a{BELL}b")
    name_reviewer(page, "cal")
    page.keyboard.press("w")
    page.keyboard.press("1")
    seen = wait_for(page, "seen.saved && seen.waiting === 1")
    assert {said[0]["reviewer"] for said in seen["opinions"].values()} == {"cal"}
    page.wait_for_function("document.querySelector('.ss-saved').textContent.startsWith('1 not saved: ')")
    assert "printable characters" in page.inner_text(".ss-saved")
    assert "ss-unsaved" in (page.get_attribute(".ss-saved", "class") or "")

    with page.expect_request(lambda request: '"old"' in (request.post_data or "")):
        name_reviewer(page, "cam")  # the refused is tried again
    wait_for(page, "seen.waiting === 1")


def test_a_name_that_cannot_be_shown_is_not_taken(page: Page) -> None:
    name_reviewer(page, "dee")
    for name in ("zero\u200bwidth", "tab\tbed", "🙂" * 41):
        page.evaluate("document.querySelector('.ss-who').maxLength = 200")  # the server counts letters, the box halves
        name_reviewer(page, name)
        assert ("is not valid" in inspect(page)["said"]) == (name != "🙂" * 41)
        assert page.input_value(".ss-who") == (name if name == "🙂" * 41 else "dee")
        assert page.evaluate("localStorage['stepscope:reviewer']") == page.input_value(".ss-who")


def test_a_damaged_entry_of_the_outbox_does_not_count(page: Page) -> None:
    page.evaluate("localStorage.setItem('stepscope:outbox:0-broken', '{')")
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    name_reviewer(page, "flo")
    page.keyboard.press("w")
    press(page, "1")
    assert page.inner_text(".ss-saved") == "saved"
    assert page.evaluate("localStorage.getItem('stepscope:outbox:0-broken')") == "{"
    del asked[:]
    page.wait_for_load_state("networkidle")
    assert asked == []


def test_a_reference_that_is_not_read_yet_is_not_said_to_be_missing(page: Page) -> None:
    name_reviewer(page, "ada")
    page.route("**/component_server/**", lambda route: None)
    page.reload()
    page.wait_for_selector(".ss-row", state="attached")  # the address may have opened the tab of reviews
    page.locator(".ss-canvas").focus()
    page.keyboard.press("w")
    page.keyboard.press("d")
    assert inspect(page)["said"] == "The reviews of this video are still being read: press again in a moment."


def test_an_answer_that_never_comes_is_asked_for_again(browser: Browser, address: str, store: ReviewStore) -> None:
    page = open_player(browser, address)
    name_reviewer(page, "mia")
    page.clock.install()
    hold_requests(page)  # nor are they refused
    page.keyboard.press("w")
    page.keyboard.press("1")
    page.wait_for_function("window.held && document.querySelector('.ss').inspect().waiting")
    page.clock.fast_forward("01:00")
    page.wait_for_function("document.querySelector('.ss-saved').textContent.startsWith('1 not saved')")
    release_requests(page)
    page.clock.fast_forward("00:10")
    assert wait_until_saved(page)["waiting"] == 0
    judged = [opinion for found in read_review(store).events for opinion in found.opinions if opinion.reviewer == "mia"]
    assert judged


def test_a_player_that_is_gone_does_nothing_more(browser: Browser, address: str) -> None:
    page = open_player(browser, address)
    name_reviewer(page, "lea")
    page.clock.install()
    hold_requests(page, refuse=True)
    page.keyboard.press("w")
    page.keyboard.press("1")
    page.wait_for_function("document.querySelector('.ss-saved').textContent.startsWith('1 not saved')")
    asked = page.evaluate("window.held")
    assert asked > 0
    page.evaluate("""new Promise((done) => {
        const canvas = document.querySelector('.ss-canvas'), read = window.getComputedStyle;
        document.querySelector('#player').remove();
        window.getComputedStyle = (of, ...more) => { window.looked ||= of === canvas; return read(of, ...more); };
        document.dispatchEvent(new Event('visibilitychange'));  // sends again, as the retry that is due now would
        requestAnimationFrame(() => requestAnimationFrame(done));
    })""")
    page.evaluate("document.body.classList.toggle('dark')")
    page.clock.run_for("00:04")  # longer than until the next attempt
    assert page.evaluate("window.held") == asked
    assert not page.evaluate("window.looked")
