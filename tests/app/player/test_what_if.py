"""Branches of a run: exact, chained, named by what was changed, linked, and refused where nothing can run again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import gradio as gr
import pytest

from stepscope.app.core.places import MAX_LINKED_CHANGES, link_params
from stepscope.app.core.run import write_content
from stepscope.app.player import streaming
from stepscope.app.player.branches import begin_branch, plan_branch
from stepscope.app.player.commands import BranchRequest
from stepscope.app.player.opening import open_link
from stepscope.app.player.views import PlayerView, task_boxes
from stepscope.app.player.what_if import queue_branch
from stepscope.app.window.context import AppContext
from stepscope.app.window.live_run import LiveRun, Window
from stepscope.engine.control.branch_files import read_branch
from stepscope.engine.replay import Recording
from tests.support.pages.benches import run_through

SAYS = '- time: 2\n  message: "Well."\n'
RENAMED = "- goal: build it\n  steps: ['S3: load', 'S2: roof', 'S1: wheel']"
BOXES: Any = ("build the toy truck", "", "", 0.5, 0.5)


def queue(context: AppContext, live: LiveRun | None, changes: str, **detail: Any) -> PlayerView:
    return queue_branch(context, Window(live=live), BranchRequest(changes=changes, **({"is_new": True} | detail)))


def stream(context: AppContext, live: LiveRun) -> PlayerView:
    *_, last = streaming.stream_run(context, Window(live=live), *BOXES)
    return last


def branch(context: AppContext, live: LiveRun, changes: str) -> tuple[LiveRun, dict[str, Any]]:
    now = queue(context, live, changes).live
    return now, json.loads(stream(context, now).player)


@pytest.fixture
def plain(context: AppContext) -> LiveRun:
    return run_through(context, context.bundled_videos.find("truck-1"))


@pytest.mark.parametrize("has_recording", [True, False])
def test_a_branch_is_that_of_the_same_file_on_the_command_line(
    context: AppContext, plain: LiveRun, tmp_path: Path, has_recording: bool
) -> None:
    assert plain.run is not None
    assert plain.recording is not None
    file = tmp_path / "changes.yaml"
    file.write_text(SAYS)
    task, features = plain.run.task, list(plain.recording.features)
    recording = Recording(context.checkpoint, features, task=task, config=plain.run.config)
    outputs = list(recording.run())
    change = read_branch(file, task=task, config=plain.run.config, num_frames=len(outputs))
    expected = [(one.response, one.updates, one.dst_state) for one in recording.branch(change).run()]
    if not has_recording:
        plain.recording = None
    now, packed = branch(context, plain, SAYS)
    assert now.run is not None
    assert [(one.response, one.updates, one.dst_state) for one in now.run.outputs] == expected
    assert now.run.outputs[4].response == "Well."
    assert (packed["letter"], packed["other"]["letter"]) == ("B", "A")
    assert packed["branch"] == {"name": "says “Well.” at 0:02.0", "changes": SAYS.strip(), "root": plain.run.digest}
    write_content(tmp_path / "provenance.json", now.run, "provenance.json")
    assert json.loads((tmp_path / "provenance.json").read_text())["changes"] == SAYS.strip()


def test_a_chain_has_one_list_of_changes_and_shows_each_branch_beside_the_one_before(
    context: AppContext, plain: LiveRun
) -> None:
    first, _ = branch(context, plain, SAYS)
    both = f"{SAYS}- time: 3\n  ask: What is next?"
    second, packed = branch(context, first, both)
    assert packed["other"]["branch"]["changes"] == SAYS.strip()
    assert second.run is not None
    assert second.run.branch is not None
    assert second.run.branch.root == plain.run, "it is a branch of the plain run, not of the other one"
    assert "Well." in [output.response for output in second.run.outputs]
    kept = queue(context, second, SAYS, beside="", is_new=False)
    assert kept.stream == gr.skip(), "a branch that is kept is shown at once"
    assert json.loads(kept.player)["run"] == first.run.digest  # type: ignore[union-attr]
    _, packed = branch(context, second, "- time: 3\n  ask: What is next?")
    assert "branch" not in packed["other"], "it lacks the changes of the branch that was shown"
    alone = queue(context, kept.live, "")
    assert json.loads(alone.player)["run"] == plain.run.digest


def test_a_change_before_settings_keeps_its_effect_and_its_run_can_be_cancelled(
    context: AppContext, plain: LiveRun
) -> None:
    assert plain.run is not None
    alone, _ = branch(context, plain, SAYS)
    assert alone.run is not None
    both = f"{SAYS}- time: 4\n  settings: {{speak_threshold: {plain.run.config.speak_threshold}}}"
    now, _ = branch(context, plain, both)
    assert now.run is not None
    decided = [[(one.response, one.updates, one.dst_state) for one in run.outputs] for run in (alone.run, now.run)]
    assert decided[0] == decided[1], "the settings are those in force"
    live = LiveRun(run=plain.run, branch=plan_branch(context, plain.run, both, recording=plain.recording))
    live.is_cancelled = True
    assert list(begin_branch(context, live, live.branch)) == []  # type: ignore[arg-type]
    assert live.run is plain.run


def test_steps_in_another_order_are_scored_and_others_are_not(context: AppContext, plain: LiveRun) -> None:
    renamed, packed = branch(context, plain, RENAMED)
    assert packed["is_judged"]
    assert [step["id"] for step in packed["steps"]] == ["S3", "S2", "S1"]
    assert renamed.run is not None
    assert renamed.run.task.goal == "build it"
    _, other = branch(context, renamed, "- steps: ['S7: fly']")
    assert not other["is_judged"]


def test_a_link_makes_the_branch_in_another_window(context: AppContext) -> None:
    clip = context.bundled_videos.find("truck-1")
    assert clip.sample is not None
    now, packed = branch(context, run_through(context, clip, **task_boxes(clip.sample)), SAYS)
    assert now.run is not None
    link = link_params(now.run)
    assert link is not None
    assert link == packed["place"]
    assert link["branch"] == SAYS.strip()
    view = open_link(context, cast(Any, None), link)
    opened = view.live
    assert isinstance(view.stream, int)
    task = (view.goal, view.steps, view.user_turns)
    *_, last = streaming.stream_run(context, Window(clip=clip, live=opened), *task, 0.5, 0.5)
    assert json.loads(last.player)["run"] == now.run.digest
    long = replace(now.run.branch, changes="#" * (MAX_LINKED_CHANGES + 1))  # type: ignore[type-var]
    assert link_params(replace(now.run, branch=long)) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("- time: 99\n  ask: x", "before the end of the video"),
        ("- ask: x\n- a: [", "cannot be read as YAML: line 2: expected the node content, but found the end."),
        ("- &a {ask: x}\n- *a", "alias"),
        ("x" * 20_001, "more than 20000 characters"),
    ],
)
def test_invalid_changes_are_refused_and_nothing_runs(
    context: AppContext, plain: LiveRun, changes: str, words: str
) -> None:
    view = queue(context, plain, changes)
    assert words in view.status.value
    assert view.stream == gr.skip()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"settings": {"imported": {}}}, "this run was imported, so its model cannot be run again here."),
        ({"settings": {"recorded": {}}}, "this run was recorded, so its model cannot be run again here."),
        ({"model_digest": "other"}, "with a different checkpoint"),
    ],
)
def test_a_run_that_cannot_be_made_again_says_so_in_a_sentence(
    context: AppContext, plain: LiveRun, changed: dict[str, Any], words: str
) -> None:
    assert plain.run is not None
    plain.run = replace(plain.run, **changed)
    assert words in queue(context, plain, SAYS).status.value


def test_a_branch_is_named_by_the_words_of_its_steps(context: AppContext, plain: LiveRun) -> None:
    assert plain.run is not None
    told = next(one for one in plain.run.outputs if one.updates)
    _, packed = branch(context, plain, f"- time: {told.time_s}\n  updates: []\n- time: 3\n  state: {{S2: completed}}")
    name = packed["branch"]["name"]
    assert "“put on the roof” completed from 0:03.0" in name
    assert "“" in name.partition(";")[0], "the update that is left out, too"
    assert not {"S1", "S2", "S3"} & {*name.replace(";", " ").split()}
