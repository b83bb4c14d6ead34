"""Inspection of a frame of the displayed run in one window."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.player.commands import FrameRequest
from stepscope.app.player.inspection import explain_frame, inspect_run
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.app.window.payload import pack_run
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.benches import run_through
from tests.support.pages.browser import NEEDS_CHROMIUM, serve_page
from tests.support.reviews.played import HOSTILE, judge, make_run


def ask(context: AppContext, live: LiveRun | None, frame: int) -> dict[str, Any]:
    return inspect_run(context, Window(live=live), FrameRequest(frame=frame))


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
    for frame in (-1, 12):
        assert ask(context, live, frame)["error"] == "there is no such frame; the run has 12 frames."


def test_a_run_that_cannot_be_followed_is_refused_in_a_sentence(context: AppContext, tmp_path: Path) -> None:
    assert "there is no finished run" in ask(context, None, 0)["error"]
    other = LiveRun.finished(replace(make_run(tmp_path), model_digest="other"))
    assert "made with a different checkpoint" in ask(context, other, 0)["error"]


def test_the_evidence_for_a_decision_is_found_on_request_and_kept_with_its_run(context: AppContext) -> None:
    live = run_through(context, context.bundled_videos.clips[0], speak_threshold=0.0)
    assert live.run is not None
    asked, batches = FrameRequest(frame=4), cast(Any, None)
    first, whole = explain_frame(context, batches, Window(live=live), asked)
    (decision,) = first["decisions"]
    assert (decision["frame"], decision["texts"], first["is_whole"]) == (4, [], False)
    (decision,) = whole["decisions"]
    assert (whole["run"], decision["frame"], decision["frames"][-1]) == (live.run.digest, 4, 4)
    assert {len(values) for values in decision["patches"]["series"].values()} == {64}
    assert {"line removed", "places swapped"} <= {change for change, *_ in decision["texts"]}
    packed = json.loads(pack_run(live.run))
    assert packed["evidence"] == whole["decisions"]
    saved = LiveRun.finished(live.run)
    *_, again = explain_frame(context, batches, Window(live=saved), FrameRequest(frame=2))
    assert [found["frame"] for found in again["decisions"]] == [2, 4], "without what the window keeps"
    made = saved.recording
    *_, again = explain_frame(context, batches, Window(live=saved), FrameRequest(frame=3))
    assert (saved.recording is made, len(again["decisions"])) == (True, 3), "the run is made again once"
    imported = LiveRun.finished(replace(live.run, settings={"imported": {}}))
    assert "was imported, so its model" in next(explain_frame(context, batches, Window(live=imported), asked))["error"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("player")
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    run = make_run(folder)
    series = {"log-odds": [0.5], "recency": [1.0], "random weights": [0.1]}
    patches = {"frame": 0, "series": {name: [0.1] * 64 for name in series}}  # of the picture of another decision
    found = {
        "series": series,
        "fewest": 1,
        "words": "Evidence.",
        "no_proof": "",
        "texts": [["turn removed", "x", 1, 0]],
    }
    evidence = [{**found, "frame": 3, "frames": [3]}, {**found, "frame": 5, "frames": [5], "patches": patches}]
    packed = {**json.loads(pack_run(run, judge(run))), "evidence": evidence}
    (folder / "a.json").write_text(json.dumps(packed), encoding="utf-8")
    with serve_page("player_page", str(folder)) as url:
        yield url


def give_inspection(page: Page, run: str, frame: int) -> None:
    """Answer the page's request with a chosen token and a forced one."""
    token = {
        "id": 7, "text": HOSTILE, "logprob": -0.25, "best": HOSTILE, "best_logprob": -0.25,
        "is_chosen": True, "is_fed": True,
    }  # fmt: skip
    forced = {**token, "text": "[ASST]", "logprob": -9.5, "is_chosen": False}
    answer = {
        "run": run, "frame": frame, "prompt": HOSTILE, "prompt_tokens": 9, "first_frame": 0,
        "earlier_tokens": 12, "speak_prob": 0.5, "update_prob": 0.5, "tokens": [token, forced],
    }  # fmt: skip
    page.evaluate("(text) => document.querySelector('.ss').receivePatch(text)", json.dumps({"inspection": answer}))
    page.wait_for_selector(".ss-tokens")


@pytest.mark.slow
@NEEDS_CHROMIUM[0]
@NEEDS_CHROMIUM[1]
def test_prompt_and_tokens_stay_text_and_escape_closes_them(browser: Browser, address: str, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1024, "height": 768})
    page.goto(address)
    page.wait_for_selector(".ss-row")
    page.locator("canvas.ss-canvas").focus()
    page.keyboard.press("h")
    give_inspection(page, make_run(tmp_path).digest, 0)
    shown = page.locator(".ss-tokens tbody tr").first.inner_text()
    assert shown.startswith("<img src=x")
    assert "-0.25" in shown
    assert page.evaluate("window.hacked") is None
    assert page.locator(".ss-tokens .ss-tag").inner_text() == "forced"
    page.keyboard.press("n")
    assert page.locator(".ss-inspection").is_visible(), "the keys of the player wait"
    colours = page.locator(".ss-inspection .ss-legend", has_text="a line supports")
    assert colours.count() == 0, "the evidence is of another decision"
    page.keyboard.press("Escape")
    assert not page.locator(".ss-inspection").is_visible()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("h")
    give_inspection(page, make_run(tmp_path).digest, 3)
    assert colours.inner_text() == "a line supports opposes the decision at 0:01.5"
    page.close()
