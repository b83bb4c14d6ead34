"""N stops at texts of low similarity, too; other thresholds fix, break or change failures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from stepscope.app.core.run import Run
from stepscope.app.review_store.events import name_events
from stepscope.app.window.payload import pack_run
from stepscope.engine.dialogue import fill_legality, initial_state
from stepscope.engine.video.writer import write_h264
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.metrics.score import analyze_video
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.reviews.played import STEPS, judge, make_run, write_reviewed

pytestmark = NEEDS_CHROMIUM
WHEEL, ROOF = "Now the wheel. ", "Now the roof. "


def encode_oddly(texts: list[str]) -> np.ndarray:
    """Encode texts so that the similarity is 0.58 for the wheel, 0.796 for the roof, and otherwise 0 or 1."""
    known = {WHEEL: 0, "Boat": 0, ROOF: 1, "Rooftop": 1, "Careful! ": 2}
    vectors = np.zeros((len(texts), 6))
    for number, text in enumerate(texts):
        cosine = {"Boat": 0.58, "Rooftop": 0.796}.get(text, 1.0)
        vectors[number, known.get(text, 3)] = cosine
        vectors[number, 4] = np.sqrt(1 - cosine**2)
    return vectors


def make_low_run(folder: Path) -> Run:
    """Return the run of ``make_run`` with a boat for the wheel, on time, and a rooftop for the roof, late."""
    said = {2: "Boat", 11: "Rooftop"}
    run = make_run(folder)
    outputs = [replace(output, response=said.get(output.frame_index, output.response)) for output in run.outputs]
    return replace(run, outputs=tuple(outputs))


def write(path: Path, run: Run) -> None:
    assert run.clip.sample is not None
    judged, names = judge(run), name_turns(run.clip.sample.turns)
    events = name_events(run.clip.video_id, outputs=run.outputs, references=names, judged=judged)
    path.write_text(pack_run(run, judged, events=events), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stops")
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    run = make_low_run(folder)
    assert run.clip.sample is not None
    write_reviewed(folder / "low.json", run, analyze_video(run.clip.sample, run.outputs, encode=encode_oddly).judged)
    again = [
        replace(output, response="Boat" if output.frame_index == 18 else output.response) for output in run.outputs
    ]
    repeated = replace(run, outputs=tuple(again))
    write(folder / "repeated.json", repeated)
    moved = [replace(output, response=None if output.frame_index == 18 else output.response) for output in again]
    moved[17] = replace(moved[17], updates=("S2->complete",), legality=None)
    moved[19] = replace(moved[19], response="!?%&/")
    config = replace(run.config, update_threshold=0.12)
    unlabelled = [replace(output, legality=None) for output in moved]
    other = replace(run, config=config, outputs=fill_legality(unlabelled, initial_state(STEPS)))
    write(folder / "moved.json", other)
    return folder


def show(page: Page, name: str) -> None:
    page.evaluate("document.querySelector('.ss').unpacked().isOld = true")
    page.click(f"#{name}")
    page.wait_for_function("!document.querySelector('.ss').unpacked().isOld")


def visit_all(page: Page) -> list[tuple[str, float]]:
    """Press Home, then N until the last failure; return the kinds with their times."""
    page.keyboard.press("Home")
    page.wait_for_function("document.querySelector('.ss').inspect().time === 0")
    visited = list[tuple[str, float]]()
    while True:
        page.evaluate("document.querySelector('.ss-said').textContent = ''")
        page.keyboard.press("n")
        said = page.wait_for_function("document.querySelector('.ss-said').textContent").json_value()
        if said.startswith("No failure after"):
            return visited
        kind = said.split(" · ")[1].split(":")[0][2:]
        page.wait_for_function(
            "(kind) => document.querySelector('.ss-failure b')?.textContent.slice(2) === kind", arg=kind
        )
        visited.append((kind, round(inspect(page)["time"], 2)))


def painted_texts(page: Page) -> list[str]:
    """Return the texts on the canvases after a redraw."""
    texts: list[str] = page.evaluate("""new Promise((done) => {
        const drawn = [], pen = CanvasRenderingContext2D.prototype, fillText = pen.fillText;
        pen.fillText = function (text, ...more) { drawn.push(text); return fillText.call(this, text, ...more); };
        document.body.classList.toggle('drawn-again');
        requestAnimationFrame(() => requestAnimationFrame(() => { pen.fillText = fillText; done(drawn); }));
    })""")
    return texts


def test_a_matched_text_of_low_similarity_reads_as_one_and_n_stops_there(page: Page) -> None:
    stops = visit_all(page)
    assert ("low similarity", 1.0) in stops
    chip = page.locator(".ss-kind[data-kind='low similarity']")
    assert chip.get_attribute("aria-label") == "low similarity: 1", "0.796 shows as 0.80"
    while "low similarity" not in inspect(page)["said"]:
        page.keyboard.press("p")
    assert inspect(page)["said"] == "Text 1 of 1 · ≈ low similarity: 0.58, other words · 0:01.0"
    page.wait_for_function("document.querySelector('.ss-failure.ss-low')")
    assert inspect(page)["event"]["text"] == "Boat"
    painted = painted_texts(page)
    assert f"{len(stops) - 1} failures" in painted, "the count of failures stays as it is scored"


def test_a_message_has_one_sign_and_changed_thresholds_fix_break_or_change_failures(
    page: Page,
) -> None:
    show(page, "repeated")
    assert page.locator(".ss-row", has_text="Boat").locator(".ss-mark").all_inner_texts() == ["≠", "↺"]
    page.focus(".ss-canvas")
    while "missed update" not in inspect(page)["said"]:
        page.keyboard.press("n")
    show(page, "moved")
    assert "No longer" not in inspect(page)["said"], "the selected failure became another"
    changed = page.locator(".ss-changed-counts b").inner_text()
    assert changed == "update 0.50 → 0.12: 1 fixed, 1 broken, 1 changed kind, 6 unchanged"
    shown = page.locator(".ss-change-list > .ss-change")
    assert shown.all_inner_texts() == [
        "changed kind 0:08.5 ◆ missed update → ◇ wrong update: S2->complete for S2->start",
        "fixed 0:09.0 ↺ repeats itself: the same words as before, with no reference near",
        "broken 0:09.5 + redundant: spoke with no reference near",
    ]
    shown.nth(1).click()
    assert round(inspect(page)["time"], 1) == 9.0
