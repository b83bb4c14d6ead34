"""Pairs are judged as one event; late replies leave the selection; the address has event and scoring."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.app.reviews.actions import Action, Event
from stepscope.app.reviews.store import ReviewStore, read_review
from stepscope.eval.annotations.corrections import Correction, TurnName, Verdict
from tests.support.pages.browser import NEEDS_CHROMIUM, hold_requests, inspect, release_requests
from tests.support.reviews.reviewed import opinion
from tests.support.reviews.reviewing import go_to, make_folder, name_reviewer, press, wait_until_saved

pytestmark = NEEDS_CHROMIUM
SAID = Event(video_id="a", kind="generated", role="assistant", time_s=5.5, text="Now the roof. ")
WANTED = Event(video_id="a", kind="reference", role="assistant", time_s=4.0, text="Now the roof. ")
MET = Event(video_id="a", kind="update", role="update", time_s=1.0, text="S1->start")
ASKED = Event(video_id="a", kind="reference", role="update", time_s=1.0, text="S1->start")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("pairs"))


def chips(page: Page, text: str) -> list[str]:
    """Return the numbers of the verdicts beside a row of the transcript."""
    return page.locator(".ss-row", has_text=text).locator("kbd").all_text_contents()


def keep(store: ReviewStore, reviewer: str, *given: tuple[Event, Verdict]) -> None:
    for event, verdict in given:
        store.append(Action(kind="verdict", reviewer=reviewer, video_id="a", event=event, verdict=verdict))


def test_one_verdict_on_a_pair_counts_for_both_and_one_undo_takes_it_back(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "ann")
    assert page.inner_text(".ss-done") == "0 of 11 judged"  # 15 events, of which 8 are 4 pairs
    go_to(page, "generated", "Now the roof")
    assert "and its reference" in page.inner_text(".ss-event")
    press(page, "4")
    review = read_review(store)
    assert [opinion(review, event, "ann").verdict for event in (SAID, WANTED)] == ["early or late"] * 2
    assert page.inner_text(".ss-done") == "1 of 11 judged"
    assert chips(page, "0:05.5") == ["4"]
    press(page, "z")
    assert page.inner_text(".ss-done") == "0 of 11 judged"
    assert read_review(store).events == ()


@pytest.mark.slow
def test_a_pair_that_is_split_is_judged_by_its_sides_and_stays_split(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "bea")
    go_to(page, "generated", "Now the roof")
    press(page, "4")
    go_to(page, "generated", "Now the roof")
    press(page, "s")
    event = inspect(page)["event"]
    assert (event["key"], "pair" in event) == (SAID.key, False)
    assert "without its reference" in page.inner_text(".ss-event")
    press(page, "2")
    review = read_review(store)
    said = [opinion(review, event, "bea").verdict for event in (SAID, WANTED)]
    assert said == ["redundant", "early or late"]
    page.reload()
    page.wait_for_selector(".ss-row kbd", state="attached")
    assert chips(page, "0:05.5") == ["4", "2"]  # the reference's, then the model's
    go_to(page, "reference", "Now the roof")
    assert "pair" not in inspect(page)["event"]
    press(page, "s", "1")
    assert [opinion(read_review(store), event, "bea").verdict for event in (SAID, WANTED)] == ["correct"] * 2
    assert chips(page, "0:05.5") == ["1"]


@pytest.mark.slow
def test_verdicts_on_both_sides_from_before_pairs_show_as_they_were_given(page: Page, store: ReviewStore) -> None:
    keep(store, "cid", (SAID, "early or late"), (WANTED, "early or late"), (MET, "correct"), (ASKED, "unclear"))
    name_reviewer(page, "cid")
    page.wait_for_function("document.querySelector('.ss-done').textContent === '2 of 11 judged'")
    assert chips(page, "0:05.5") == ["4"]
    assert chips(page, "S1->start") == ["7", "1"]
    keep(store, "dan", (MET, "correct"))  # of the pair only one side
    name_reviewer(page, "dan")
    page.wait_for_function("document.querySelectorAll('.ss-row kbd').length === 1")
    assert page.inner_text(".ss-done") == "0 of 11 judged"


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


@pytest.mark.slow
def test_a_late_reply_leaves_the_failure_that_was_selected_since(page: Page, store: ReviewStore) -> None:
    for key, turn in (("text", "S1->start"), ("b", "Now the roof")):
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
        assert all(after[name] == before[name] for name in ("event", "time", "said"))
        judged = press(page, "2")
        assert judged["said"].startswith("“redundant”: model update “S2->begin” at 0:03.5")
        given = Event(video_id="a", kind="update", role="update", time_s=3.5, text="S2->begin")
        assert opinion(read_review(store), given, f"ann {key}").verdict == "redundant"


@pytest.mark.slow
def test_moves_are_followed_and_escape_drops_what_is_typed(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "bob")
    go_to(page, "reference", "S2->start")
    hold_requests(page)
    for number in (1, 2):
        page.keyboard.press("b")
        page.wait_for_function("(number) => document.querySelector('.ss').inspect().waiting === number", arg=number)
    after = release(page)
    assert (after["event"]["text"], round(after["time"], 1)) == ("S2->start", 9.5)
    assert after["said"].endswith("it is at 0:09.5. Z takes it back.")
    name_reviewer(page, "cid")
    go_to(page, "reference", "Careful!")
    page.keyboard.press("e")
    page.keyboard.type("Watch out!")
    page.keyboard.press("Escape")
    assert page.input_value(".ss-edited") == "Careful! "
    assert inspect(page)["waiting"] == 0
    assert not [found for found in read_review(store).corrections.get("a", ()) if found.reviewer == "cid"]
    name_reviewer(page, "gus")
    go_to(page, "reference", "What is next?")
    assert round(press(page, "b", "b")["time"], 1) == 4.0  # behind the failures at 3.5
    page.keyboard.press("n")
    assert inspect(page)["said"].endswith(" · 0:05.5")
    press(page, "z", "z")


@pytest.mark.slow
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


@pytest.mark.slow
def test_keys_after_e_without_a_text_to_edit_judge_nothing_and_no_row_is_marked_for_a_wrong_state(page: Page) -> None:
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
    page.click("[data-tab=rows]")
    page.locator(".ss-canvas").focus()
    page.keyboard.press("Home")
    while "wrong state" not in inspect(page)["said"]:
        page.keyboard.press("n")
    page.wait_for_function("document.querySelector('.ss-failure b')?.textContent.includes('wrong state')")
    assert "wrong state of" in banner(page)
    assert page.locator(".ss-row.ss-current").count() == 0
    page.keyboard.press("w")
    page.wait_for_selector(".ss-row.ss-current")


@pytest.mark.slow
def test_a_reload_keeps_the_event_that_keys_judge_and_a_turn_that_was_moved(page: Page) -> None:
    go_to(page, "generated", "Now the wheel")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.ss').inspect().time > 1.4")
    before = banner(page)
    assert "model said Now the wheel" in before
    page.wait_for_function("/t=1.5.*event=/.test(location.search)")
    reload(page)
    page.wait_for_function("document.querySelector('.ss').inspect().time > 1.4")
    assert banner(page) == before
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


@pytest.mark.slow
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
