"""Reviewing at its edges: what is typed while things change, names that are refused, videos without a run."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from stepscope.app.reviews.store import ReviewStore
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.reviews.edges import OFF_GRID, notes, seek, turn_at, wait_for, write_edges
from tests.support.reviews.reviewing import go_to, name_reviewer, press, wait_until_saved

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


def test_a_click_on_a_turn_moves_nothing(page: Page) -> None:
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


def test_a_correction_judges_again_where_the_corrected_reference_counts(page: Page) -> None:
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
