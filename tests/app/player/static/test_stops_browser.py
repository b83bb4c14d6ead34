"""N stops at texts of low similarity, too, or at roots only; other thresholds fix, break or change failures."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from stepscope.app.core.run import Run
from stepscope.app.core.saved import read_saved_run
from stepscope.app.core.videos import sample_clip
from stepscope.app.review_store.events import name_events
from stepscope.app.window.payload import pack_run
from stepscope.engine.dialogue import fill_legality, initial_state
from stepscope.engine.video.writer import write_h264
from stepscope.eval.annotations.corrections import name_turns
from stepscope.eval.data.loading import read_split
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import RunFolder
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.paths import ASSETS
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
    write_diagnosed(folder / "roots.json")
    return folder


def write_diagnosed(path: Path) -> None:
    """Write a bundled run with its diagnosis, a hidden root more, and evidence for the decision of its root."""
    folder, name = RunFolder(ASSETS / "demo" / "run"), "robot-permuted"
    sample = next(sample for sample in read_split(ASSETS / "demo" / "test.json").samples if sample.video_id == name)
    clip = sample_clip(sample, Path("a.mp4"), is_bundled=False)
    scoring = ScoreSettings(text_encoder="letters")
    write(path, read_saved_run(folder, clip, settings=folder.settings() or {}, scoring=scoring, encoder={}))
    packed = json.loads(path.read_text(encoding="utf-8"))
    packed["roots"].append({**packed["roots"][0], "frame": 50, "is_hidden": True, "words": "Hidden: it fails."})
    series = {"log-odds": [0.5, -0.25], "recency": [0.5, 1.0], "random weights": [0.1, None]}
    packed["evidence"] = [
        {"frame": 30, "frames": [29, 30], "series": series, "fewest": 1, "words": "Evidence.", "no_proof": "No proof."}
    ]
    path.write_text(json.dumps(packed), encoding="utf-8")
    failure = next(one for one in packed["failures"] if one["frame"] == 36 and one["kind"] == "wrong state")
    failure.update(root=1, is_consequence=False)
    packed["roots"][1].update(frame=36, is_hidden=False, words="No later failure follows from it.")
    path.with_name("several.json").write_text(json.dumps(packed), encoding="utf-8")


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
        if said.startswith(("No failure after", "No mistake after", "No chain after")):
            return visited
        seen = inspect(page)
        page.locator(".ss-failure .ss-sentence").filter(
            has_text=re.compile(re.findall(r"\d+:[\d.]+", said)[0])
        ).wait_for()
        visited.append((seen["stop"], round(seen["time"], 2)))


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
    while inspect(page)["stop"] != "low similarity":
        page.keyboard.press("p")
    assert inspect(page)["said"] == "Text 1 of 1 · 0:01.0 · In time, but in other words: similarity 0.58."
    page.wait_for_function("document.querySelector('.ss-failure.ss-low')")
    assert inspect(page)["event"]["text"] == "Boat"
    painted = painted_texts(page)
    assert any(text.endswith(f"mistakes, {len(stops) - 1} failures") for text in painted), (
        "the count of failures stays as it is scored"
    )


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
    page.click(".ss-mode")
    show(page, "repeated")
    show(page, "moved")
    assert shown.first.inner_text().startswith("changed kind 0:08.5 ◆ missed update → ◇ wrong update: The assistant ")
    page.click(".ss-mode")


def test_a_mistake_with_signs_of_several_reasons_tells_each_and_is_a_root_itself(page: Page) -> None:
    show(page, "several")
    page.click(".ss-mode")
    page.get_by_role("button", name="chains 2: stop at first mistakes only").click()
    page.focus(".ss-canvas")
    assert visit_all(page) == [("wrong update", 15.0), ("wrong state", 18.0)]
    own = "Its “wrong state” has a reason of its own: no later failure follows from it."
    later = "Its “early or late” and “wrong update” follow from 0:15.0: had it started “mount the block”, not “put on"
    reasons = page.locator(".ss-failure .ss-reason")
    expect(reasons).to_have_text([own, re.compile(later)])
    expect(page.locator(".ss-why")).to_contain_text(f"{own} ")
    expect(page.locator(".ss-why")).to_contain_text(later)
    expect(page.locator(".ss-why .ss-cause-of")).to_have_text("⎇ first mistake, 0:15.0")
    page.click(".ss-mode")
    expect(reasons).to_have_text(["No later failure follows from it."])  # who reviews judges a sign by itself


def test_a_root_lists_its_consequences_and_n_stops_at_roots_only_if_chosen(page: Page) -> None:
    show(page, "roots")
    page.focus(".ss-canvas")
    assert len(visit_all(page)) == 9, "every failure, and no hidden root"
    page.click(".ss-mode")
    assert len(visit_all(page)) == 5, "who watches stops once at each mistake"
    page.click(".ss-mode")
    page.get_by_role("tab", name="Transcript").click()
    page.focus(".ss-canvas")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    reason = page.locator(".ss-why")
    expect(reason).to_contain_text("Once it is corrected, 7 later failures vanish.")
    card = page.locator(".ss-failure")
    expect(card.locator(".ss-reason")).to_contain_text("Once it is corrected, 7 later failures vanish.")
    expect(card.locator(".ss-sentence")).to_have_text(
        "0:15.0 The assistant noted the start of “put on the head” instead of “mount the block”. Its states of “mount "
        "the block” and “put on the head” are wrong, the last of them until 0:34.0."
    )
    series = reason.locator(".ss-series[aria-pressed='true']")
    expect(series).to_have_text("log-odds")
    reason.get_by_text("recency").click()
    expect(series).to_have_text("recency")
    assert "recency to ±1.0" in painted_texts(page)
    listed = reason.locator(".ss-consequence")
    assert not listed.first.is_visible(), "they are folded"
    reason.get_by_text("7 consequences").click()
    assert listed.all_inner_texts()[0] == "0:18.0 ↔ early or late"
    listed.last.click()
    assert inspect(page)["said"].startswith("Failure 9 of 9 · ◇ wrong update")
    expect(reason).to_contain_text("Follows from 0:15.0: had it started “mount the block”, not “put on the head” there")
    expect(reason).not_to_contain_text("Evidence.")
    reason.get_by_text("⎇ first mistake, 0:15.0").click()
    expect(reason).to_contain_text("7 consequences")
    chip = page.get_by_role("button", name="chains 2: stop at first mistakes only")
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    page.focus(".ss-canvas")
    assert visit_all(page) == [("wrong update", 15.0), ("hidden mistake", 25.0)]
    page.keyboard.press("p")
    assert inspect(page)["said"].startswith("Chain 1 of 2 · 0:15.0 · The assistant noted")
    page.get_by_role("button", name="chains 2: stop at first mistakes only").click()
    page.get_by_role("tab", name="Review").click()
    page.locator(".ss-blind").check()
    expect(reason).to_have_text("Blind: the reason is shown after your verdict.")
    expect(page.locator(".ss-reason, .ss-roots, .ss-patches")).to_have_count(0)
    texts = painted_texts(page)
    assert "chains ⎇" not in texts
    assert "log-odds to ±0.50" not in texts
    page.fill(".ss-who", "ann")
    page.locator(".ss-verdict").first.click()
    page.focus(".ss-canvas")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    expect(card.locator(".ss-reason")).to_contain_text("Once it is corrected, 7 later failures vanish.")
    expect(reason).not_to_contain_text("consequences")  # they are not judged
    page.locator(".ss-blind").uncheck()
    expect(reason).to_contain_text("7 consequences")
    page.get_by_role("tab", name="Transcript").click()
    show(page, "low")
    assert page.locator(".ss-roots").count() == 0
    page.locator(".ss-row", has=page.locator(".ss-mark.ss-mismatched")).first.click()
    expect(reason).to_have_text("Why is not known: this run was recorded, so its model cannot be run again here.")
