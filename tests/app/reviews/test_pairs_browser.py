"""A matched pair is judged as one event, unless it is split or its sides were judged differently."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from stepscope.app.reviews.actions import Action, Event
from stepscope.app.reviews.store import ReviewStore, read_review
from stepscope.eval.annotations.corrections import Verdict
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.reviews.reviewed import opinion
from tests.support.reviews.reviewing import go_to, make_folder, name_reviewer, press

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
