"""A verdict key applies to the selected event: a failure, a row, or a mark in a lane."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.app.review_store.store import ReviewStore
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.pages.signals import find_row, point
from tests.support.reviews.played import keys_of_failures, make_run
from tests.support.reviews.reviewing import make_folder, name_reviewer

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("selection"))


def read_pack(folder: Path, name: str) -> dict[str, Any]:
    pack: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return pack


def wait_for(page: Page, condition: str) -> dict[str, Any]:
    """Wait until the player's state ``seen`` satisfies a condition."""
    page.wait_for_function(f"(() => {{ const seen = document.querySelector('.ss').inspect(); return {condition}; }})()")
    return inspect(page)


def check_failures(page: Page, pack: dict[str, Any]) -> None:
    """Step forwards and back through all failures; each must select its own event."""
    page.keyboard.press("Home")
    keys = keys_of_failures(pack)
    last = len(keys) - 1
    steps = [("n", number) for number in range(len(keys))] + [("p", number) for number in range(last - 1, -1, -1)]
    for key, number in steps:
        page.keyboard.press(key)
        seen = wait_for(page, f"seen.cursor === {number}")
        assert seen["event"]["key"] == keys[number], (key, pack["failures"][number])
        assert pack["failures"][number]["kind"] in page.inner_text(".ss-event")


def check_rows(page: Page, store: ReviewStore) -> None:
    """Click every third row and give a verdict: it must be stored for the row's event, which is shown in each tab."""
    judged = list[str]()
    for number in range(0, page.locator(".ss-row").count(), 3):
        page.click("[data-tab=rows]")
        row = page.locator(".ss-row").nth(number)
        row.scroll_into_view_if_needed()
        time_text, text = row.locator(".ss-time").inner_text(), row.locator(".ss-words > *").first.text_content()
        row.locator(".ss-time").click()
        for tab in ("rows",) if judged else ("review", "curves", "rows"):
            page.click(f"[data-tab={tab}]")
            assert (text or "").removeprefix("should have said").removeprefix("missed") in (
                page.text_content(".ss-event") or ""
            )
            assert time_text in page.inner_text(".ss-event")
        page.keyboard.press("5")
        wait_for(page, "seen.saved && !seen.waiting")
        event = store.read()[-1].event
        assert event is not None
        assert event.text == (text or "").removeprefix("missed").removeprefix("should have said")
        assert f"{int(event.time_s // 60)}:{event.time_s % 60:04.1f}" == time_text
        judged.append(event.key)
    assert len(set(judged)) == len(judged)


def place(page: Page, lane: str, time_s: float, *, below: float) -> tuple[float, float]:
    """Return the screen position of a time in a lane, ``below`` pixels from the lane's top."""
    row, _, box = find_row(page, lane)
    return point(page, lane, time_s)[0], box["y"] + row["top"] + below


def test_every_failure_selects_its_own_event_also_right_after_a_seek(page: Page, folder: Path) -> None:
    check_failures(page, read_pack(folder, "a"))  # forwards, and back to the first
    page.keyboard.press("n")
    wait_for(page, "seen.cursor === 1")
    page.evaluate("""for (const key of ["Home", "n"]) {
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, composed: true}));
    }""")
    assert inspect(page)["cursor"] == 0


def test_a_verdict_lands_on_the_row_that_was_clicked(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "ann")
    check_rows(page, store)


@pytest.mark.slow
def test_a_mark_in_a_lane_selects_its_event(page: Page, folder: Path) -> None:
    page.set_viewport_size({"width": 1440, "height": 1200})
    page.click("[data-tab=review]")
    prob = make_run(folder).outputs[7].update_prob
    on_trace = 56 - 5 - prob * (56 - 11)
    marks = [  # lane, its time, pixels below its top, and of what kind and text the event is
        ("said", 5.5, 10.0, ("generated", "Now the roof. ")),
        ("said", 1.0, 10.0, ("generated", "Now the wheel. ")),
        ("reference", 6.0, 10.0, ("reference", "Careful! ")),
        ("user", 3.0, 10.0, ("reference", "What is next? ")),
        ("corrected", 6.0, 7.0, ("reference", "Careful! ")),
        ("corrected", 8.5, 19.0, ("reference", "S2->start")),
        ("judged", 9.0, 6.0, ("generated", "!?%&/ 12345 ")),
        ("update", 8.5, 51.0, ("reference", "S2->start")),
        ("update", 3.5, on_trace, ("update", "S1->complete")),
        ("update", 3.5, on_trace, ("update", "S2->begin")),  # a second click on a mark that two share
        ("step", 9.5, 14.0, ("state", "S2")),  # hatched: what is wrong there
    ]
    for kind, time_s, below, expected in marks:
        page.mouse.click(*place(page, kind, time_s, below=below))
        seen = wait_for(page, f"Math.abs(seen.time - {time_s}) < 0.05")
        assert (seen["event"]["kind"], seen["event"]["text"]) == expected, (kind, time_s)
        assert expected[1].strip() in page.inner_text(".ss-event")
