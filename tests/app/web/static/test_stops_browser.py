"""N stops at the chosen kinds of failures; a reference alone shows no model; messages disappear with their verdict."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from stepscope.app.core.run import Run
from stepscope.app.reviews.events import name_events
from stepscope.app.web.payload import pack_run
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import fill_legality, initial_state
from stepscope.engine.video.writer import write_h264
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.metrics.score import analyze_video
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.reviews.played import STEPS, judge, make_run, write_reviewed

pytestmark = NEEDS_CHROMIUM
WHEEL, ROOF = "Now the wheel. ", "Now the roof. "
LOW_CHIP = ".ss-kind[data-kind='low similarity']"


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


def write(path: Path, run: Run, judged: JudgedVideo | None) -> None:
    assert run.clip.sample is not None
    names = name_turns(run.clip.sample.turns)
    events = name_events(run.clip.video_id, outputs=run.outputs, references=names, judged=judged)
    path.write_text(pack_run(run, judged, events=events), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stops")
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    run = make_low_run(folder)
    assert run.clip.sample is not None
    write_reviewed(folder / "low.json", run, analyze_video(run.clip.sample, run.outputs, encode=encode_oddly).judged)
    write(folder / "other_judgement.json", run, judge(run))
    again = [
        replace(output, response="Boat" if output.frame_index == 18 else output.response) for output in run.outputs
    ]
    repeated = replace(run, outputs=tuple(again))
    write(folder / "repeated.json", repeated, judge(repeated))
    moved = [replace(output, response=None if output.frame_index == 18 else output.response) for output in again]
    moved[17] = replace(moved[17], updates=("S2->complete",), legality=None)
    moved[19] = replace(moved[19], response="!?%&/")
    config = replace(run.config, update_threshold=0.12)
    unlabelled = [replace(output, legality=None) for output in moved]
    other = replace(run, config=config, outputs=fill_legality(unlabelled, initial_state(STEPS)))
    write(folder / "moved.json", other, judge(other))
    write(folder / "reference.json", replace(run, outputs=()), None)
    silent = [replace(output, response=None, updates=(), legality=(), dst_state={}) for output in run.outputs]
    alone = replace(run.clip, name="plain", sample=None)
    plain = replace(run, clip=alone, task=Task(goal="", steps=()), outputs=tuple(silent))
    (folder / "plain.json").write_text(pack_run(plain), encoding="utf-8")
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


def hover(page: Page, row: dict[str, Any], *, below: float) -> str:
    """Move the mouse to the middle of a lane; return the tooltip."""
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + row["top"] + below)
    return page.locator(".ss-tip").inner_text() if page.locator(".ss-tip").is_visible() else ""


def test_a_matched_text_of_low_similarity_reads_as_one_and_n_stops_there(page: Page) -> None:
    stops = visit_all(page)
    assert ("low similarity", 1.0) in stops
    assert page.locator(LOW_CHIP).get_attribute("aria-label") == "low similarity: 1", "0.796 shows as 0.80"
    while "low similarity" not in inspect(page)["said"]:
        page.keyboard.press("p")
    assert inspect(page)["said"] == "Text 1 of 1 · ≈ low similarity: 0.58, other words · 0:01.0"
    page.wait_for_function("document.querySelector('.ss-failure.ss-low')")
    assert page.locator(".ss-failure").inner_text().startswith("≈ low similarity 0.58, other words")
    assert inspect(page)["event"]["text"] == "Boat"
    assert "≈ low similarity" in page.locator(".ss-event").inner_text()
    marks = page.locator(".ss-row", has_text="Boat").locator(".ss-mark")
    assert (marks.inner_text(), marks.get_attribute("class")) == ("≈\n0.58", "ss-mark ss-low")
    painted = painted_texts(page)
    assert "≈ Boat" in painted
    assert f"{len(stops) - 1} failures" in painted, "the count of failures stays as it is scored"
    page.click(LOW_CHIP)
    assert visit_all(page) == [stop for stop in stops if stop[0] != "low similarity"]


@pytest.mark.slow
def test_only_the_kind_of_the_failure_that_is_shown(page: Page) -> None:
    every = visit_all(page)
    button = page.locator(".ss-only")
    page.keyboard.press("Home")
    page.wait_for_function("document.querySelector('.ss-only').hidden")
    page.keyboard.press("8")
    assert inspect(page)["said"] == "No failure is selected: N goes to the next one."
    page.keyboard.press("n")
    kind = every[0][0]
    alike = [stop for stop in every if stop[0] == kind]
    assert 0 < len(alike) < len(every)
    page.keyboard.press("+")
    assert inspect(page)["said"] == ""
    button.wait_for(state="hidden")
    assert page.locator(".ss-failure").is_visible(), "the button belongs to the line that names the failure"
    page.keyboard.press("0")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    page.locator(".ss-only", has_text="only this kind").click()
    assert inspect(page)["said"] == f"N and P stop only at “{kind}”. 8 chooses the other kinds again."
    pressed = page.locator(".ss-kind[aria-pressed=true]").evaluate_all(
        "(chips) => chips.map((chip) => chip.dataset.kind)"
    )
    assert pressed == [kind]
    assert visit_all(page) == alike
    assert button.inner_text() == "all kinds"
    page.keyboard.press("8")
    assert visit_all(page) == every
    page.click(LOW_CHIP)
    for _ in range(2):
        page.keyboard.press("8")
    assert page.locator(LOW_CHIP).get_attribute("aria-pressed") == "false", "the kinds chosen before are chosen again"
    show(page, "reference")
    page.wait_for_function("document.querySelector('.ss-only').hidden")


def test_a_message_has_one_sign_and_changed_thresholds_fix_break_or_change_failures(
    page: Page,
) -> None:
    show(page, "repeated")
    painted = {text for text in painted_texts(page) if text.endswith("Boat")}
    assert painted == {"≠ Boat", "↺ Boat"}
    assert page.locator(".ss-row", has_text="Boat").locator(".ss-mark").all_inner_texts() == ["≠", "↺"]
    counts = {
        kind: page.locator(f".ss-kind[data-kind='{kind}']").inner_text() for kind in ("redundant", "repeats itself")
    }
    assert counts == {"redundant": "+ 0", "repeats itself": "↺ 1"}
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
    assert page.locator("details .ss-change").count() == 6
    assert not page.locator("details .ss-change").first.is_visible(), "folded"
    shown.nth(0).click()
    assert page.locator(".ss-failure b").first.inner_text() == "◇ wrong update"
    assert round(inspect(page)["time"], 1) == 8.5
    shown.nth(1).click()
    assert round(inspect(page)["time"], 1) == 9.0
    show(page, "plain")
    assert page.locator(".ss-changes").is_hidden(), "another task"


@pytest.mark.slow
def test_a_message_is_replaced_with_its_judgement_and_a_reference_alone_has_nothing_of_a_run(page: Page) -> None:
    page.keyboard.press("n")
    before = inspect(page)["said"]
    show(page, "other_judgement")
    said = inspect(page)["said"]
    assert said != before
    assert said.startswith("Failure 1 of 8 · ≠ wrong text"), "the same event, as the other judgement counts it"
    page.keyboard.press(">")
    assert inspect(page)["said"] == "Speed 1.5\u00d7"
    show(page, "low")
    assert inspect(page)["said"] == "Speed 1.5\u00d7", "what was done still holds"
    show(page, "reference")
    assert page.locator(".ss-kind").count() == 0
    assert page.locator("[data-do=nextFailure]").is_disabled()
    assert page.locator(".ss-origins").inner_text() == "", "no run, so no model and thresholds of one"
    assert {row["kind"] for row in inspect(page)["rows"]} == {"user", "reference", "step", "axis"}
    texts = painted_texts(page)
    assert "reference" in texts
    assert not [text for text in texts if text in ("model", "ref", "assistant") or "failures" in text]
    step = next(row for row in inspect(page)["rows"] if row["kind"] == "step")
    assert hover(page, step, below=step["height"] - 6) == "S1 attach the wheel : reference ● completed"
    page.keyboard.press("n")
    assert inspect(page)["said"] == "There is no run here that can fail: this is the reference alone."
    page.click("[data-tab=curves]")
    assert page.locator(".ss-curves").inner_text() == "There is no run to score: this is the reference alone."
    page.click("[data-tab=review]")
    offered = page.locator(".ss-scope option:not(:disabled)").all_inner_texts()
    assert offered == ["all events", "the reference's"]
    show(page, "low")
    assert "model" in painted_texts(page)
    assert page.locator(".ss-kind").count() == 9
