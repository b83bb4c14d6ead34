"""Inspection of a frame of the displayed run in one window."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.context import AppContext
from stepscope.app.core.live_run import LiveRun
from stepscope.app.tabs.player.inspection import inspect_run
from stepscope.app.web.payload import pack_run
from stepscope.assets.scenes.script import Cause
from stepscope.engine.video.writer import write_h264
from stepscope.eval.metrics.failures import LATE_S
from tests.conftest import moving_square
from tests.support.pages.benches import run_through
from tests.support.pages.browser import NEEDS_CHROMIUM, serve_page, wait_until_drawn
from tests.support.reviews.played import HOSTILE, judge, make_run


def ask(context: AppContext, live: LiveRun | None, frame: object) -> dict[str, Any]:
    event: Any = SimpleNamespace(frame=frame)
    return dict(json.loads(inspect_run(context, live, event)))


def test_a_frame_of_the_run_is_inspected_with_or_without_what_the_window_keeps(context: AppContext) -> None:
    live = run_through(context, context.bundled_videos.clips[0], speak_threshold=0.0)
    assert live.run is not None
    found = ask(context, live, 3)
    assert (found["run"], found["frame"]) == (live.run.digest, 3)
    assert "Task: build the toy truck" in found["prompt"]
    assert [token["text"] for token in found["tokens"]].count("[ASST]") == 1
    assert found["speak_prob"] == pytest.approx(live.run.outputs[3].speak_prob, abs=1e-4)
    again = ask(context, LiveRun.finished(live.run), 3)
    assert [token["id"] for token in again["tokens"]] == [token["id"] for token in found["tokens"]]
    for frame in (-1, 12, 1.5, "x", None):
        assert ask(context, live, frame)["error"] == "there is no such frame; the run has 12 frames."


def test_a_run_that_cannot_be_followed_is_refused_in_a_sentence(context: AppContext, tmp_path: Path) -> None:
    assert "there is no finished run" in ask(context, None, 0)["error"]
    other = LiveRun.finished(replace(make_run(tmp_path), model_digest="other"))
    assert "made with a different checkpoint" in ask(context, other, 0)["error"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("player")
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    run = make_run(folder)
    (folder / "a.json").write_text(pack_run(run, judge(run)), encoding="utf-8")
    causes = {1.0: "constructor", 6.0: "decoy", 8.5: "decoy"}
    assert run.clip.sample is not None
    turns = tuple(replace(turn, cause=causes.get(turn.time_s)) for turn in run.clip.sample.turns)
    hard = replace(run, clip=replace(run.clip, sample=replace(run.clip.sample, turns=turns)))
    silent = tuple(replace(output, response=None, updates=(), legality=()) for output in run.outputs)
    hard = replace(hard, outputs=silent)
    (folder / "b.json").write_text(pack_run(hard, judge(hard)), encoding="utf-8")
    with serve_page("player_page", str(folder)) as url:
        yield url


@NEEDS_CHROMIUM[0]
@NEEDS_CHROMIUM[1]
def test_a_miss_shows_the_highest_probability_near_it_and_tokens_stay_text(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    run = make_run(tmp_path)
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
    page.wait_for_selector(".ss-row")
    page.locator("canvas.ss-canvas").focus()
    while not page.locator(".ss-highest").count():
        page.keyboard.press("n")
        wait_until_drawn(page)
    said = page.locator(".ss-failure").inner_text()
    frame = int(page.evaluate("document.querySelector('.ss').inspect().frame"))
    name = "update" if "missed update" in said else "speak"
    near = [o for o in run.outputs if abs(o.time_s - run.outputs[frame].time_s) <= LATE_S]
    best = max(near, key=lambda output: getattr(output, f"{name}_prob"))
    delay_s = best.time_s - run.outputs[frame].time_s
    when = f"{abs(delay_s):g} s {'earlier' if delay_s < 0 else 'later'}" if delay_s else "at this frame"
    prob = getattr(best, f"{name}_prob")
    assert f"highest {name} probability within 1 s: {prob:.3f}, {when}; threshold 0.50" in said
    page.get_by_role("button", name="prompt and tokens of this frame").click()
    give_inspection(page, run.digest, frame)
    shown = page.locator(".ss-tokens tbody tr").first.inner_text()
    assert re.search(r"^<img src=x", shown)
    assert "-0.25" in shown
    assert page.evaluate("window.hacked") is None
    page.close()


def give_inspection(page: Page, run: str, frame: int, *, tokens: int = 1) -> None:
    """Answer the page's request with ``tokens`` chosen tokens and one forced token."""
    token = {
        "id": 7, "text": HOSTILE, "logprob": -0.25, "best": HOSTILE, "best_logprob": -0.25,
        "is_chosen": True, "is_fed": True,
    }  # fmt: skip
    forced = {**token, "text": "[ASST]", "logprob": -9.5, "is_chosen": False}
    answer = {
        "run": run, "frame": frame, "prompt": HOSTILE, "prompt_tokens": 9, "first_frame": 0,
        "earlier_tokens": 12, "speak_prob": 0.5, "update_prob": 0.5, "tokens": [token] * tokens + [forced],
    }  # fmt: skip
    page.evaluate(
        "(text) => document.dispatchEvent(new CustomEvent('stepscope:inspection', {detail: text}))", json.dumps(answer)
    )
    page.wait_for_selector(".ss-tokens")


@pytest.mark.slow
@NEEDS_CHROMIUM[0]
@NEEDS_CHROMIUM[1]
def test_prompt_and_tokens_have_room_and_escape_closes_them(browser: Browser, address: str, tmp_path: Path) -> None:
    width, height = 1024, 768
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"{address}/?__theme=dark")
    page.wait_for_selector(".ss-row")
    page.locator("canvas.ss-canvas").focus()
    page.keyboard.press("h")
    give_inspection(page, make_run(tmp_path).digest, 0, tokens=40)
    box = page.locator(".ss-inspection").bounding_box()
    assert box is not None
    assert 0.9 * width < box["width"] <= width, "wide enough for the tokens beside the prompt"
    assert 0.85 * height < box["height"] <= height
    assert page.evaluate(f"document.querySelector('.ss-tokens').offsetWidth > {width} * 0.3")
    ink, paper = page.evaluate("""(() => {
        const style = getComputedStyle(document.querySelector('.ss-inspection'));
        return [style.color, style.backgroundColor].map((text) => Number(text.match(/[\\d.]+/)[0]));
    })()""")
    assert ink > paper
    legend = page.locator(".ss-legend").all_inner_texts()
    assert [words.split(":")[0] for words in legend] == ["log p", "likelier", "forced"]
    assert legend[2].startswith("forced: fed by the program, not chosen by the model")
    tag = page.locator(".ss-tokens .ss-tag")
    assert tag.inner_text() == "forced"
    assert tag.get_attribute("title") == legend[2]
    page.keyboard.press("n")
    assert page.locator(".ss-inspection").is_visible(), "the keys of the player wait"
    page.keyboard.press("Escape")
    assert not page.locator(".ss-inspection").is_visible()
    page.keyboard.press("n")
    page.wait_for_selector(".ss-failure")
    page.close()


@NEEDS_CHROMIUM[0]
@NEEDS_CHROMIUM[1]
def test_a_cause_is_explained_in_plain_words_beside_the_failure_and_in_the_list_of_keys(
    browser: Browser, address: str
) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
    page.wait_for_selector(".ss-row")
    page.click("#b")
    page.wait_for_function("document.querySelector('.ss').unpacked().failures.some((failure) => failure.cause)")
    page.locator("canvas.ss-canvas").focus()
    said = dict[str, str]()
    while len(said) < 2:
        page.keyboard.press("n")
        page.wait_for_function("document.querySelector('.ss-said').textContent")
        assert not page.locator(".ss-said").inner_text().startswith("No failure")
        lines = page.locator(".ss-cause").evaluate_all(  # at once: the panel is drawn again as the playhead moves
            "lines => lines.map((line) => [line.querySelector('.ss-tag').innerText, line.innerText, line.title])"
        )
        for tag, text, title in lines:
            said[tag] = " ".join(text.split())
            assert "manifest" in title
    assert said == {
        "decoy": "cause decoy a part that is not needed is taken and put back",
        "constructor": "cause constructor as the split's manifest names it",
    }
    page.keyboard.press("?")
    explained = page.locator(".ss-help").inner_text()
    for cause in get_args(Cause):
        assert re.search(rf"^{cause}\s+\w+", explained, re.MULTILINE), cause
    page.close()
