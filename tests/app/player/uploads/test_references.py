"""A reference that an upload gets after its run: the run is scored, not lost."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from stepscope.app.core.videos import Clip
from stepscope.app.player import handlers
from stepscope.app.player.views import PlayerView
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.eval.data.samples import Sample
from stepscope.eval.data.writers import write_samples
from tests.support.pages.benches import open_upload, run_views

TASK = {"goal": "build", "steps": "S1: attach the wheel", "user_turns": ""}


@pytest.fixture
def clip(context: AppContext) -> Clip:
    found = open_upload(context, context.bundled_videos.clips[0].path).clip
    assert isinstance(found, Clip)
    return found


@pytest.fixture
def sample(context: AppContext) -> Sample:
    found = context.bundled_videos.clips[0].sample
    assert found is not None
    return found


def queue(context: AppContext, clip: Clip, **changes: str) -> PlayerView:
    return handlers.queue_run(context, Window(clip=clip), **{**TASK, **changes}, speak=0.5, update=0.5)


def test_an_upload_is_not_run_without_its_task(context: AppContext, clip: Clip, sample: Sample) -> None:
    boxes = {"goal": "", "steps": ""}
    assert "needs a goal and its steps, one per line; enter them" in queue(context, clip, **boxes).status.value
    assert queue(context, clip).status.value.startswith("Waiting to start")
    bare = replace(clip, sample=replace(sample, goal="", steps=()))
    assert queue(context, bare, **boxes).status.value.startswith("Waiting to start"), "its reference has none"
    assert queue(context, context.bundled_videos.clips[0], **boxes).status.value.startswith("Waiting to start")


def give_reference(context: AppContext, live: LiveRun, clip: Clip, path: Path, sample: Sample) -> tuple[Any, Any]:
    """Give the upload of a run a reference; return the view and the data of the player."""
    write_samples(path, [sample], file_format="manifest")
    view = handlers.set_reference(context, Window(clip=clip, live=live), str(path))
    return view, json.loads(view.player)


def test_a_reference_after_a_run_scores_it(context: AppContext, clip: Clip, sample: Sample, tmp_path: Path) -> None:
    live = LiveRun()
    steps = "\n".join(f"{step.id}: {step.name}" for step in sample.steps)
    *_, ended = run_views(context, clip, live, goal=sample.goal, steps=steps, speak_threshold=0.0)
    assert live.run is not None
    before = json.loads(ended.player)
    assert (before["has_reference"], before["landing"]["is_from_start"], ended.scores) == (False, True, "")
    view, data = give_reference(context, live, clip, tmp_path / "own.json", sample)
    assert (data["run"], data["is_judged"], data["landing"]["is_from_start"]) == (before["run"], True, True)
    assert data["failures"]
    assert view.scores
    assert view.status.value.endswith("of own.json. The run is scored by it.")
    now = view.live
    assert (now.run.outputs, now.recording is not None) == (live.run.outputs, True), "thresholds can still be changed"
    removed = handlers.set_reference(context, Window(clip=view.clip, live=now), None)
    assert (removed.scores, len(removed.live.run.outputs)) == ("", len(live.run.outputs))


def test_a_reference_with_other_steps_keeps_the_run_unscored(
    context: AppContext, clip: Clip, sample: Sample, tmp_path: Path
) -> None:
    live = LiveRun()
    *_, ended = run_views(context, clip, live, goal="build", steps="S1: attach the wheel")
    fast = replace(sample, steps=sample.steps[:1], turns=(), fps=4 * sample.fps, num_frames=4 * sample.num_frames)
    for number, other in enumerate((sample, fast)):
        view, data = give_reference(context, live, clip, tmp_path / f"{number}.json", other)
        assert data["run"] == json.loads(ended.player)["run"]
        assert (data["is_judged"], view.scores, view.steps.count("S")) == (False, "", len(other.steps))
        assert "does not score the run shown" in view.status.value


def test_a_reference_keeps_the_typed_task_where_it_has_none(
    context: AppContext, clip: Clip, sample: Sample, tmp_path: Path
) -> None:
    def give(shown: Clip | None, own: Sample, *boxes: str) -> PlayerView:
        write_samples(tmp_path / "own.json", [own], file_format="manifest")
        return handlers.set_reference(context, Window(clip=shown), str(tmp_path / "own.json"), *boxes)

    typed = ("build", "S1: hold the wheel", "")
    spoken = tuple(turn for turn in sample.turns if turn.role == "assistant")
    bare = replace(sample, goal="", steps=(), turns=spoken)
    view = give(clip, bare, *typed)
    assert [view.goal, view.steps] == [gr.skip()] * 2
    assert view.status.value.endswith("of own.json. Press Run.")
    *_, ended = run_views(
        context, view.clip, LiveRun(), goal=typed[0], steps=typed[1], speak_threshold=0.0, update_threshold=0.0
    )
    assert ended.scores, "a reference without steps scores the rest"
    data = json.loads(ended.player)
    assert any(turn["role"] == "update" for turn in data["turns"])
    failed = [failure["turn"] for failure in data["failures"] if failure["turn"] is not None]
    assert {data["turns"][turn]["role"] for turn in failed} == {"assistant"}, "updates and states are not scored"
    view = give(clip, sample, *typed)
    assert (view.goal, view.steps.count("S")) == (sample.goal, len(sample.steps))
    assert view.status.value.endswith("of own.json. It replaces the typed goal and steps. Press Run.")
    view = give(view.clip, bare, view.goal, view.steps, "")
    assert (view.goal, view.steps) == ("", ""), "they were those of the other reference"
