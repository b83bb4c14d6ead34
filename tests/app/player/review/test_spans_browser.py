"""Reply spans are corrected in the player: both edges are dragged, and a key that is held marks a span."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.app.review_store.store import ReviewStore, read_review
from stepscope.engine.video.writer import write_h264
from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.data.loading import read_samples
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.reviews.played import judge, make_run, write_reviewed
from tests.support.reviews.reviewing import name_reviewer, wait_until_saved

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose reference turn at 6 s has a reply span to 8 s."""
    folder = tmp_path_factory.mktemp("spans")
    run = make_run(folder)
    assert run.clip.sample is not None
    turns = tuple(replace(turn, end_s=8.0) if turn.text == "Careful! " else turn for turn in run.clip.sample.turns)
    run = replace(run, clip=replace(run.clip, sample=replace(run.clip.sample, turns=turns)))
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    write_reviewed(folder / "a.json", run, judge(run))
    return folder


def spans(folder: Path, store: ReviewStore) -> list[tuple[str, float, float | None]]:
    """Return the assistant's turns of the corrected reference with their spans."""
    (sample,) = read_samples(folder / "reviews" / "split.json")
    corrections = read_review(store, video_id="a").corrections.get("a", ())
    found = apply_corrections(sample, corrections)
    assert not found.unusable
    return [(turn.text.strip(), turn.time_s, turn.end_s) for turn in found.sample.turns if turn.role == "assistant"]


def drag(page: Page, begin_s: float, end_s: float) -> None:
    """Drag the mark or the edge at a time in the lane *corrected* to another time."""
    row: dict[str, Any] = next(row for row in inspect(page)["rows"] if row["kind"] == "corrected")
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    second = (box["width"] - 150 - 14) / 10  # pixels, between the gutter of the labels and the margin
    x, y = box["x"] + 150, box["y"] + row["top"] + 7
    page.mouse.move(x + begin_s * second, y)
    page.mouse.down()
    page.mouse.move(x + end_s * second, y, steps=6)
    page.mouse.up()
    wait_until_saved(page)


def test_both_edges_are_dragged_and_a_held_key_marks_a_span(page: Page, folder: Path, store: ReviewStore) -> None:
    name_reviewer(page, "ann")
    page.wait_for_function("document.querySelector('.ss').inspect().rows.some((row) => row.kind === 'corrected')")
    page.locator(".ss-canvas").scroll_into_view_if_needed()
    drag(page, 8.0, 9.1)
    assert ("Careful!", 6.0, 9.0) in spans(folder, store), "at the nearest frame"
    drag(page, 6.0, 5.1)
    assert ("Careful!", 5.0, 9.0) in spans(folder, store)
    page.fill(".ss-until", "0:08.04")
    page.press(".ss-until", "Enter")
    wait_until_saved(page)
    assert ("Careful!", 5.0, 8.04) in spans(folder, store), "to the millisecond"

    page.evaluate("document.querySelector('#video video').currentTime = 3.8")
    page.wait_for_function("Math.abs(document.querySelector('#video video').currentTime - 3.8) < 0.05")
    page.evaluate("document.querySelector('#video video').playbackRate = 0.5")  # a busy machine looks late
    page.click("[data-do=play]")
    page.keyboard.down("9")
    page.wait_for_function("document.querySelector('#video video').currentTime >= 4.6")  # around the turn at 4 s
    page.keyboard.up("9")
    page.evaluate("document.querySelector('#video video').pause()")
    wait_until_saved(page)
    (_, start_s, stop_s) = next(found for found in spans(folder, store) if found[0] == "Now the roof.")
    assert stop_s is not None
    assert 3.0 <= start_s <= 4.5
    assert 4.5 <= stop_s <= 6.0
