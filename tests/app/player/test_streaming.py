"""Runs of one window: started, stopped, re-run and scored."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from stepscope.app.player import handlers, streaming
from stepscope.app.player.commands import Against
from stepscope.app.player.reruns import rerun
from stepscope.app.player.views import show_run
from stepscope.app.review_store.actions import Action
from stepscope.app.review_store.store import open_store
from stepscope.app.window.context import AppContext, ReviewContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.config import Thresholds
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.samples import Split
from tests.support.pages.benches import run_through, run_views
from tests.support.streams.fakes import anybody


@pytest.fixture
def every_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STATUS_INTERVAL_S", 0.0)


@pytest.mark.usefixtures("every_frame")
def test_a_run_shows_each_frame_and_ends_with_scores(context: AppContext) -> None:
    clip, live = context.bundled_videos.find("truck-1"), LiveRun()
    seen = list(run_views(context, clip, live, user_turns="3.5: What is next?"))
    running = r"Running: 3 of 12 frames, [\d.]+ frames/s, \d:\d\d left, float32, [\d.,]+ [MG]iB, at 0:01 of 0:06\."
    assert re.fullmatch(running, seen[2].status.value)
    assert seen[-1].status.value.startswith("Done: 12 frames in ")
    assert 'value="3" max="12"' in seen[2].progress
    assert seen[-1].progress == ""
    shown = json.loads(seen[-1].player)
    assert [step["id"] for step in shown["steps"]] == ["S1", "S2", "S3"]
    assert [band[-1][1] for band in shown["bands"]["reference"]] == [2, 1, 0]
    head = json.loads(seen[0].player)["head"]
    assert (shown["is_finished"], head["is_finished"]) == (True, False)
    assert all(view.player == gr.skip() for view in seen[1:-1]), "the player fetches the frames itself"
    assert ": Share of the frames whose whole state is the reference" in seen[-1].scores
    references = [(turn["role"], turn["text"]) for turn in shown["references"]]
    assert references.count(("user", "What is next?")) == 1
    assert ("assistant", "Let's build the toy truck.") in references
    assert live.ended.is_set()


@pytest.mark.parametrize("is_untrained", [True, False])
def test_a_run_without_a_decision_of_an_untrained_model_names_the_button_that_calibrates(
    context: AppContext, monkeypatch: pytest.MonkeyPatch, is_untrained: bool
) -> None:
    monkeypatch.setattr(AppContext, "is_untrained", is_untrained)
    clip, live = context.bundled_videos.find("truck-1"), LiveRun()
    last = list(run_views(context, clip, live, speak_threshold=1.0, update_threshold=1.0))[-1]
    assert ("press Calibrate in Video, task, settings." in last.status.value) == is_untrained
    assert live.run is not None
    live.requested = Thresholds(speak=0.99999, update=1.0)
    again = list(rerun(context, Window(live=live)))[-1]
    assert ("press Calibrate in Video, task, settings." in again.status.value) == is_untrained


@pytest.mark.usefixtures("every_frame")
def test_stop_keeps_what_was_reached(context: AppContext) -> None:
    live = LiveRun()
    going = run_views(context, context.bundled_videos.find("truck-1"), live)
    for _ in range(4):
        next(going)
    live.is_cancelled = True
    assert list(going) == []
    view = handlers.show_stopped(context, Window(live=live))
    assert view.status.value == "Stopped at 0:02 of 0:06."  # frames 0, 0.5, 1.0, 1.5 s: 1.5 rounds to the even second
    assert view.progress == ""
    shown = json.loads(view.player)
    assert shown["is_finished"] is False
    assert len(base64.b64decode(shown["times"])) == 4 * 8
    assert live.run is not None
    shorter = replace(live.run, is_finished=True)
    assert show_run(shorter, "Read.", encode=context.encode).status.value == "Read. It has 4 of 12 frames."


@pytest.mark.usefixtures("every_frame")
def test_two_windows_do_not_mix(context: AppContext) -> None:
    def outputs(live: LiveRun) -> list[tuple[Any, ...]]:
        assert live.run is not None
        return [(o.time_s, o.speak_prob, o.response, o.updates) for o in live.run.outputs]

    names = ("truck-1", "truck-2")
    together = (LiveRun(), LiveRun())
    alone = [run_through(context, context.bundled_videos.find(name)) for name in names]
    runs = [
        run_views(context, context.bundled_videos.find(name), live) for name, live in zip(names, together, strict=True)
    ]
    for _ in zip(*runs, strict=True):
        pass
    assert [outputs(live) for live in alone] == [outputs(live) for live in together]
    assert outputs(alone[0]) != outputs(alone[1])


@pytest.mark.parametrize(
    ("box", "text", "words"),
    [
        ("user_turns", "soon: hello", "soon: hello"),
        ("user_turns", "7: hello", "the user turn at 0:07 comes after the end of the video (0:06)"),
        ("goal", "long " * 5000, "the schema prompt takes"),
    ],
)
def test_a_wrong_entry_is_refused_in_a_sentence(context: AppContext, box: str, text: Any, words: str) -> None:
    clip = context.bundled_videos.find("truck-1")
    last = list(run_views(context, clip, LiveRun(), **{box: text}))[-1]
    assert last.status.value.startswith("⚠ ")
    assert words in last.status.value


def test_other_steps_than_the_references_are_not_held_against_a_long_bundled_video(context: AppContext) -> None:
    limited = replace(context, max_duration_s=1)  # for uploads
    views = list(run_views(limited, context.bundled_videos.find("truck-1"), LiveRun(), steps="A1: fry the egg"))
    assert views[-1].status.value.startswith("Done: 12 frames")
    assert views[-1].status.value.endswith("No scores: the steps differ from those of the reference.")
    shown = json.loads(views[-1].player)
    assert shown["has_reference"] is False
    assert shown["intro"].endswith("; its reference lists other steps.")


def test_a_run_is_judged_by_the_corrected_reference_or_the_sources(context: AppContext, tmp_path: Path) -> None:
    def judge(*, corrected: bool, is_blind: bool = False) -> tuple[str, dict[str, Any]]:
        asked = Against(corrected=corrected, reviewer="bob", is_blind=is_blind)
        view = streaming.judge_against(context, reviews, Window(live=live), asked, anybody())
        return view.status.value, json.loads(view.player)

    clip = context.bundled_videos.clips[0]
    assert clip.sample is not None
    live = LiveRun()
    *_, last = run_views(context, clip, live)
    with open_store(tmp_path / "reviews.sqlite") as store:
        reviews = ReviewContext(
            store=store, splits={"test": Split(path=tmp_path / "test.json", entries=(clip.sample,))}
        )
        name = name_turns(clip.sample.turns)[0]
        correction = Correction(reviewer="ann", kind="delete", turn=name)
        store.append(Action(kind="correction", reviewer="ann", video_id=clip.name, correction=correction))
        said, packed = judge(corrected=True)
        assert said == "Scored against the corrected reference; turns changed: 1, conflicts: 0."
        assert len(packed["references"]) == len(clip.sample.turns) - 1
        keys = [event["key"] for event in json.loads(last.player)["events"] if event["kind"] == "reference"]
        left = [event["key"] for event in packed["events"] if event["kind"] == "reference"]
        assert left == keys[1:]  # the others keep their names
        said, packed = judge(corrected=False)
        assert "the source reference" in said
        assert packed["references"] == json.loads(last.player)["references"]
        said, packed = judge(corrected=True, is_blind=True)
        assert "turns changed: 0" in said
        assert len(packed["references"]) == len(clip.sample.turns)
        live.run = None
        nothing = streaming.judge_against(context, reviews, Window(live=live), Against(), anybody())
        assert "press Run" in nothing.status.value
