"""Late replies leave the selection of the user; the address has the event that keys judge and the scoring."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.app.reviews.actions import Action, Event
from stepscope.app.reviews.store import ReviewStore, read_review
from stepscope.eval.annotations.corrections import Correction, TurnName
from tests.support.pages.browser import NEEDS_CHROMIUM, hold_requests, inspect, release_requests
from tests.support.reviews.reviewed import opinion
from tests.support.reviews.reviewing import go_to, make_folder, name_reviewer, press, wait_until_saved

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("links"))


def release(page: Page) -> dict[str, Any]:
    release_requests(page)
    return wait_until_saved(page)


def edit(page: Page, text: str) -> None:
    page.keyboard.press("e")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def reload(page: Page) -> None:
    page.reload()
    page.wait_for_selector(".ss-row", state="attached")
    page.wait_for_function("document.querySelector('.ss').inspect().layer?.length")


def banner(page: Page) -> str:
    return page.inner_text(".ss-event").replace("\n", " ")


@pytest.mark.parametrize(("key", "turn"), [("text", "S1->start"), ("b", "Now the roof")])
def test_a_late_reply_leaves_the_failure_that_was_selected_since(
    page: Page, store: ReviewStore, key: str, turn: str
) -> None:
    name_reviewer(page, f"ann {key}")
    go_to(page, "reference", turn)
    hold_requests(page)
    if key == "text":
        edit(page, "S2->start")
    else:
        page.keyboard.press(key)
    page.wait_for_function("document.querySelector('.ss').inspect().waiting === 1")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    before = inspect(page)
    assert "· ◇ wrong update" in before["said"]
    after = release(page)
    assert [after[name] for name in ("event", "time", "said")] == [before[name] for name in ("event", "time", "said")]
    judged = press(page, "2")
    assert judged["said"].startswith("“redundant”: model update “S2->begin” at 0:03.5")
    given = Event(video_id="a", kind="update", role="update", time_s=3.5, text="S2->begin")
    assert opinion(read_review(store), given, f"ann {key}").verdict == "redundant"


def test_moves_that_are_answered_late_are_followed_to_the_last(page: Page) -> None:
    name_reviewer(page, "bob")
    go_to(page, "reference", "S2->start")
    hold_requests(page)
    for number in (1, 2):
        page.keyboard.press("b")
        page.wait_for_function("(number) => document.querySelector('.ss').inspect().waiting === number", arg=number)
    after = release(page)
    assert (after["event"]["text"], round(after["time"], 1)) == ("S2->start", 9.5)
    assert after["said"].endswith("it is at 0:09.5. Z takes it back.")


def test_escape_drops_the_text_that_is_typed_for_a_turn(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "cid")
    go_to(page, "reference", "Careful!")
    page.keyboard.press("e")
    page.keyboard.type("Watch out!")
    page.keyboard.press("Escape")
    assert page.input_value(".ss-edited") == "Careful! "
    assert inspect(page)["waiting"] == 0
    assert not [found for found in read_review(store).corrections.get("a", ()) if found.reviewer == "cid"]


def test_n_goes_on_from_the_new_time_of_a_turn_that_was_moved(page: Page) -> None:
    name_reviewer(page, "gus")
    go_to(page, "reference", "What is next?")
    assert round(press(page, "b", "b")["time"], 1) == 4.0  # behind the failures at 3.5
    page.keyboard.press("n")
    assert inspect(page)["said"].endswith(" · 0:05.5")
    press(page, "z", "z")


def test_a_correction_that_another_contradicts_is_not_reported_as_done(page: Page, store: ReviewStore) -> None:
    turn = TurnName(role="user", time_s=3.0, text="What is next? ")
    moved = Correction(reviewer="gus", kind="time", turn=turn, time_s=2.0)
    store.append(Action(kind="correction", reviewer="gus", video_id="a", correction=moved))
    name_reviewer(page, "fay")
    go_to(page, "reference", "What is next?")
    press(page, "b")
    said, words = inspect(page)["said"], "Reviewers disagree about its time (fay: 2.5, gus: 2.0): the source is kept."
    assert said == f"Not applied to the user turn “What is next? ” at 0:03.0: {words} Z takes yours back."
    assert page.inner_text(".ss-troubles") == words


def test_keys_that_are_typed_after_e_without_a_text_to_edit_judge_nothing(page: Page) -> None:
    name_reviewer(page, "hal")
    before = go_to(page, "generated", "!?%&")
    typed = """keys => [...keys].forEach((key) => document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })))"""
    page.evaluate(typed, "eNow 123")  # without a pause, however busy the machine is
    assert inspect(page)["said"] == "Nothing is edited here: keys that are typed right after E change nothing."
    assert inspect(page)["waiting"] == 0
    page.wait_for_timeout(800)  # a pause ends the text
    while inspect(page)["event"]["key"] != before["key"]:
        page.keyboard.press("w")
    page.wait_for_timeout(800)
    assert press(page, "2")["said"].startswith("“redundant”: model said “!?%&/ 12345 ” at 0:09.0.")


def test_the_transcript_marks_no_row_for_a_wrong_state(page: Page) -> None:
    page.locator(".ss-canvas").focus()
    while "wrong state" not in inspect(page)["said"]:
        page.keyboard.press("n")
    page.wait_for_function("document.querySelector('.ss-failure b')?.textContent.includes('wrong state')")
    assert "wrong state of" in banner(page)
    assert page.locator(".ss-row.ss-current").count() == 0
    page.keyboard.press("w")
    page.wait_for_selector(".ss-row.ss-current")


def test_a_reload_keeps_the_event_that_keys_judge_also_behind_its_moment(page: Page) -> None:
    go_to(page, "generated", "Now the wheel")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.ss').inspect().time > 1.4")
    before = banner(page)
    assert "model said Now the wheel" in before
    page.wait_for_function("/t=1.5.*event=/.test(location.search)")
    reload(page)
    page.wait_for_function("document.querySelector('.ss').inspect().time > 1.4")
    assert banner(page) == before


def test_a_reload_keeps_a_turn_that_was_moved_and_its_failure(page: Page) -> None:
    name_reviewer(page, "dot")
    go_to(page, "reference", "Careful!")
    press(page, "b")
    page.keyboard.press("w")
    page.keyboard.press("q")
    page.wait_for_function("/t=6.5.*event=/.test(location.search)")
    page.wait_for_function("document.querySelector('.ss-failure')")
    card, before = page.inner_text(".ss-failure"), banner(page)
    assert "at 0:06.0" in card
    assert "at this frame" not in card
    reload(page)
    page.wait_for_function("document.querySelector('.ss-failure')")
    assert (page.inner_text(".ss-failure"), banner(page), round(inspect(page)["time"], 1)) == (card, before, 6.5)


def test_a_reload_and_a_link_keep_the_scoring_by_the_corrected_reference(page: Page) -> None:
    name_reviewer(page, "eve")
    page.check(".ss-against")
    page.wait_for_function("document.querySelector('#let_go textarea').value === 'corrected True;'")
    page.wait_for_function("location.search.includes('score=corrected')")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".ss-canvas").focus()
    page.keyboard.press("y")
    page.wait_for_function("document.querySelector('.ss-said').textContent.startsWith('Link copied.')")
    assert "score=corrected" in page.evaluate("navigator.clipboard.readText()")
    reload(page)
    page.wait_for_function("document.querySelector('#let_go textarea').value === 'corrected True;'")
    assert page.is_checked(".ss-against")
    page.click("[data-tab=review]")
    page.uncheck(".ss-against")
    page.wait_for_function("!location.search.includes('score=')")
