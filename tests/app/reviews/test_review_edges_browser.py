"""Reviewing at its edges: what is typed while things change, what the server refuses or leaves open, no run."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.reviews.store import ReviewStore, read_review
from tests.support.pages.browser import NEEDS_CHROMIUM, hold_requests, inspect, release_requests
from tests.support.reviews.edges import OFF_GRID, leave, notes, seek, turn_at, wait_for, write_edges
from tests.support.reviews.reviewing import go_to, name_reviewer, open_player, press, wait_until_saved

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edges")
    write_edges(folder)
    return folder


def test_the_name_and_blindness_follow_the_reviews_tab(page: Page) -> None:
    name_reviewer(page, "dee")
    tell = "([name, detail]) => document.dispatchEvent(new CustomEvent('stepscope:' + name, {detail}))"
    page.evaluate(tell, ["reviewer", "fay"])
    page.evaluate(tell, ["blind", "yes"])
    assert page.input_value(".ss-who") == "fay"
    assert page.is_checked(".ss-blind")
    page.keyboard.press("w")
    seen = press(page, "1")
    assert "fay" in {opinion["reviewer"] for said in seen["opinions"].values() for opinion in said}


def test_what_is_typed_stays_with_its_event(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "gus")
    event = go_to(page, "reference", "Now the roof")
    page.keyboard.press("k")
    assert not inspect(page)["isPaused"]
    page.keyboard.press("m")
    assert inspect(page)["isPaused"]
    page.keyboard.type("over")
    seek(page, 8.6)
    assert inspect(page)["event"]["pair"]["key"] == event["key"]
    page.keyboard.type("hangs")
    page.keyboard.press("Enter")
    wait_for(page, "seen.event.time === 8.5")  # and now it follows
    wait_until_saved(page)
    assert notes(store, "gus") == {event["text"]: "overhangs"}

    page.keyboard.press("m")
    seek(page, 6.1)
    page.keyboard.press("Escape")  # nothing was typed
    careful = wait_for(page, "seen.event.time === 6")["event"]

    page.keyboard.press("m")
    page.keyboard.type("half a wo")
    other = next(turn for turn in inspect(page)["layer"] if turn["text"] == "S2->start")
    page.mouse.move(*turn_at(page, other["key"]))
    page.mouse.down()
    wait_for(page, f"seen.event.key === {other['key']!r}")
    page.mouse.up()
    wait_until_saved(page)
    assert notes(store, "gus") == {event["text"]: "overhangs", careful["text"]: "half a wo"}


def test_a_note_waits_for_the_name(page: Page, store: ReviewStore) -> None:
    event = go_to(page, "reference", "Now the roof")
    page.keyboard.press("m")
    page.keyboard.type("dark")
    page.keyboard.press("Enter")
    assert "Type your name" in inspect(page)["said"]
    page.keyboard.type("dna")  # d deletes, n goes on, a adds: commands where this is no name
    assert page.input_value(".ss-who") == "dna"
    assert page.input_value(".ss-note") == "dark"
    assert "1 not saved yet" in page.inner_text(".ss-saved")
    page.keyboard.press("Enter")
    wait_until_saved(page)
    assert notes(store, "dna") == {event["text"]: "dark"}
    page.keyboard.press("w")
    wait_for(page, f"seen.event.key !== {event['key']!r}")
    assert page.input_value(".ss-note") == ""


def test_without_a_run_events_follow_the_playhead_and_an_addition_lands_there(page: Page) -> None:
    name_reviewer(page, "hal")
    page.click("#alone")
    wait_for(page, "seen.rows.every((row) => row.kind !== 'judged') || seen.event === null")
    seek(page, 4.2)
    wait_for(page, "seen.event?.time === 4")
    page.click("[data-tab=rows]")  # a hidden transcript follows once it is shown
    page.wait_for_selector(".ss-row.ss-current")
    seek(page, 6.1)
    wait_for(page, "seen.event?.text.startsWith('Careful!')")
    seek(page, 2.8)
    page.keyboard.press("a")
    page.keyboard.type("Hold it.")
    page.keyboard.press("Enter")
    seen = wait_until_saved(page)
    assert [turn["time"] for turn in seen["layer"] if turn["text"] == "Hold it."] == [2.5]
    press(page, "z")


def test_a_click_moves_nothing_and_a_correction_judges_again_where_the_corrected_reference_counts(page: Page) -> None:
    name_reviewer(page, "ida")
    event = go_to(page, "reference", OFF_GRID.text)
    x, y = turn_at(page, event["key"])
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 2, y)
    page.mouse.up()
    assert inspect(page)["waiting"] == 0
    page.keyboard.press("1")  # what is sent after it tells that it was not sent
    seen = wait_until_saved(page)
    assert [turn["time"] for turn in seen["layer"] if turn["key"] == event["key"]] == [OFF_GRID.time_s]
    name_reviewer(page, "kim")
    go_to(page, "reference", "S2->start")
    page.check(".ss-against")
    page.wait_for_function("document.querySelector('#let_go textarea').value === 'corrected True;'")
    page.keyboard.press("Escape")
    press(page, "b")
    page.wait_for_function("document.querySelector('#let_go textarea').value === 'corrected True;corrected True;'")
    press(page, "1")  # is no correction
    page.wait_for_timeout(300)
    assert page.input_value("#let_go textarea") == "corrected True;corrected True;"


def test_without_a_video_there_is_nothing_to_review(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "jan")
    event = go_to(page, "reference", "Now the roof")
    page.keyboard.press("m")
    page.keyboard.type("typed")
    page.evaluate("document.querySelector('#none').click()")  # the focus stays where it is
    seen = wait_for(page, "seen.video === null")
    assert seen["event"] is None
    assert not page.is_visible(".ss-note")
    assert page.is_visible(".ss-who")
    assert (seen["said"], page.text_content(".ss-clock")) == ("", "0:00.0")
    page.evaluate("document.querySelector('.ss-note').value = 'late'")
    page.evaluate("document.querySelector('.ss-note').dispatchEvent(new Event('change'))")
    wait_until_saved(page)
    assert notes(store, "jan") == {event["text"]: "typed"}


def test_what_the_server_refuses_of_one_name_holds_up_no_other(page: Page) -> None:
    leave(page, reviewer="a\ab")
    name_reviewer(page, "cal")
    page.keyboard.press("w")
    page.keyboard.press("1")
    seen = wait_for(page, "seen.saved && seen.waiting === 1")
    reviewers = {one["reviewer"] for said in seen["opinions"].values() for one in said}
    assert ("cal" in reviewers, "a\ab" in reviewers) == (True, False)
    page.wait_for_function("document.querySelector('.ss-saved').textContent.startsWith('1 not saved: ')")
    assert "printable characters" in page.inner_text(".ss-saved")
    assert "ss-unsaved" in (page.get_attribute(".ss-saved", "class") or "")

    with page.expect_request(lambda request: '"old"' in (request.post_data or "")):
        name_reviewer(page, "cam")  # the refused is tried again
    wait_for(page, "seen.waiting === 1")


def test_a_name_that_cannot_be_shown_is_not_taken_nor_is_a_reference_missing_that_is_not_read_yet(page: Page) -> None:
    name_reviewer(page, "dee")
    for name in ("zero\u200bwidth", "tab\tbed", "🙂" * 41):
        page.evaluate("document.querySelector('.ss-who').maxLength = 200")  # the server counts letters, the box halves
        name_reviewer(page, name)
        assert ("is not valid" in inspect(page)["said"]) == (name != "🙂" * 41)
        assert page.input_value(".ss-who") == (name if name == "🙂" * 41 else "dee")
        assert page.evaluate("localStorage['stepscope:reviewer']") == page.input_value(".ss-who")
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
