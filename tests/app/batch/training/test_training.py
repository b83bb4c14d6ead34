"""The Training tab: a split is checked from its annotations, and a training folder is followed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.batch import training
from stepscope.app.batch.training import HEADERS, clip_table
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.figures.charts.registry import TRAINING_CHARTS
from stepscope.app.window.context import AppContext
from stepscope.engine.io.files import write_csv
from stepscope.engine.training.curves import LossCurve, TrainingProgress, write_curves
from stepscope.eval.training.results import VALIDATION_BASIS, ClipRow, read_results, write_clips

HOSTILE = '<img src=x onerror="hacked=1">'
CLIPS = (
    ClipRow(video_id="a", frames=12, minutes=0.1, responses=1, updates=2, turns_per_minute=30, speaking_rate=0.25),
    ClipRow(video_id="=1+1", problem=HOSTILE, is_used=False),
    ClipRow(video_id="c", frames=12, minutes=0.1, problem="the video ends after 12 of 20 frames"),
)


def write_folder(folder: Path, *, step: int, problem: str = "") -> None:
    """Write the files of a training folder of 200 steps at a step."""
    write_clips(folder / "training", CLIPS)
    curve = LossCurve()
    for number in range(1, step + 1):
        curve.add({"text": 2 / number, "speak": 1 / number, "update": float("nan")}, step=number, num_steps=200)
    progress = TrainingProgress(
        step=step, num_steps=200, best_step=100, best_score=0.5, problem=problem, is_over=bool(problem) or step == 200
    )
    write_curves(folder / "training", progress, curve)
    rows = [{"step": 0, "score": 0.25, "F1": 0.25}, {"step": 100, "score": 0.5, "F1": 0.5}]
    write_csv(folder / "training" / "log.csv", rows)


@pytest.fixture
def runs(finished: BatchContext) -> Any:
    folder = finished.runs / "tuned"
    write_folder(folder, step=150)
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_a_split_is_checked_from_its_annotations(context: AppContext, finished: BatchContext) -> None:
    offered = training.list_sources(finished, "split split")
    assert [value for _, value in offered.choices] == ["split split"]
    assert offered.value == "split split"
    view = training.show_training(context, finished, "split split")
    (first, *_) = view.clips
    assert len(view.clips) == 3
    assert dict(zip(HEADERS, first, strict=True))["Contexts"] == 1
    assert "videos are not opened" in view.said
    assert "Clips: 3 of 3 clips, " in view.said
    assert (view.losses, view.curves.visible) == ("", False)


def test_a_training_folder_is_shown_and_followed_until_it_is_finished(
    context: AppContext, finished: BatchContext, runs: Path
) -> None:
    assert ("training run: tuned", "folder tuned") in training.list_sources(finished, None).choices
    view = training.show_training(context, finished, "folder tuned")
    assert view.said.startswith("At step 150 of 200, written at ")
    assert "the weights of step 100, validation score 0.500, before training 0.250." in view.said
    assert "Clips: 2 of 3 clips" in view.said
    assert "2 have a problem and are listed first" in view.said
    assert (view.timer.active, view.curves.visible) == (True, True)
    assert json.loads(view.losses)["light"]["data"][0]["y"][-1] == pytest.approx(2 / 150)
    assert training.follow_training(finished, view.shown) == Updates(), "nothing has changed"
    write_folder(runs, step=200)
    later = training.follow_training(finished, view.shown)
    assert later.said.startswith("Finished after step 200 of 200")
    assert later.timer.active is False
    write_folder(runs, step=160, problem="training diverged; lower --learning-rate")
    failed = training.follow_training(finished, later.shown).said
    assert failed.startswith("Failed at step 160 of 200: training diverged; lower --learning-rate.")


def test_a_path_that_is_not_in_the_list_is_not_read(context: AppContext, finished: BatchContext, runs: Path) -> None:
    remote = replace(finished, takes_paths=False)
    view = training.show_training(context, remote, f"folder ../{runs.parent.name}/tuned")
    assert view.said.startswith("Choose a split")
    assert f"--out {finished.runs.name}/NAME" in view.said, "others need not see the folders of the server"
    assert view.clips == []


def test_clips_with_problems_come_first_and_keep_their_texts(runs: Path) -> None:
    found = read_results(runs)
    assert str(found.clips).replace("30.0", "30") == str(CLIPS), "nan equals nan in a text"
    rows = clip_table(found.clips)
    assert [row[0] for row in rows] == ["=1+1", "c", "a"]
    assert rows[0][-1] == f"unusable: {HOSTILE}"
    assert dict(zip(HEADERS, rows[2], strict=True))["Frames that speak, %"] == 25


def test_the_best_step_is_marked(runs: Path) -> None:
    figure = TRAINING_CHARTS["validation"].draw(read_results(runs), "dark")
    assert figure.layout.title.subtitle.text == "Best: step 100, 0.500; before training 0.250"
    assert list(figure.data[-1].x) == [100]
    assert figure.layout.meta["basis"] == VALIDATION_BASIS
