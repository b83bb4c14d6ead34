"""A run is judged on the page as it was scored: its own match window, kind of matching and teacher-forced pass."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.batch import compare as comparing
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.player import opening
from stepscope.app.player.views import PlayerView
from stepscope.app.window.context import AppContext
from stepscope.engine.dialogue import initial_state
from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.score import analyze_video
from stepscope.eval.metrics.videollm_online import LiveTurn, count_live
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.support.data.batches import copies, write_split
from tests.support.data.records import make_output
from tests.support.pages.batch_tab import make_batches
from tests.support.streams.fakes import count_letters


def repeat(sample: Sample, *, late: int = 0) -> list[FrameOutput]:
    """Return outputs that say what the reference says, so many frames later, and update nothing."""
    texts = {frame_at(t.time_s, sample.fps) + late: t.text for t in sample.turns if t.role == "assistant"}
    state = initial_state(sample.steps, sample.initial_state)
    return [
        make_output(
            frame, fps=sample.fps, speak_prob=0.9 if frame in texts else 0.1, response=texts.get(frame), dst_state=state
        )
        for frame in range(sample.num_frames)
    ]


@pytest.fixture
def batches(demo_manifest: Path, tiny_folder: Path, tmp_path: Path) -> BatchContext:
    """Serve a split of one video with three runs: ``usual`` and ``published`` repeat it, ``late`` does so 3 s later."""
    split = write_split(tmp_path, *copies(demo_manifest, tmp_path, 1))
    batches = make_batches(split, checkpoint=tiny_folder, runs=tmp_path / "runs")
    sample = batches.splits["split"].samples[0]
    turn = LiveTurn((0.9, 0.1), (0.1, 0.9), (True,), (0.0,), (), ())
    for name, settings in (("usual", {}), ("published", {"zero_cost": "drop"}), ("late", {"dataset": "ego4d"})):
        folder = batches.runs / name
        folder.mkdir(parents=True)
        RunFolder(folder).write_settings(
            {"split": str(split.resolve()), "config": {}, "text_encoder": "letters", **settings}
        )
        record = VideoRecord(video_id="v0", source=digest_sample(sample), num_frames=sample.num_frames)
        if name == "published":
            record = replace(record, live=count_live([turn], fps=sample.fps, threshold=0))
        RunFolder(folder).save_video(record, repeat(sample, late=6 if name == "late" else 0))
    return batches


def open_run(context: AppContext, batches: BatchContext, name: str) -> PlayerView:
    event: Any = SimpleNamespace(row_value=["v0"])
    return opening.open_video(context, batches, name, event)


def failures(view: PlayerView) -> list[str]:
    return [failure["kind"] for failure in json.loads(view.player)["failures"]]


def test_the_player_and_the_scores_below_it_judge_as_the_run_was_scored(
    context: AppContext, batches: BatchContext
) -> None:
    usual, published, late = (open_run(context, batches, name) for name in ("usual", "published", "late"))
    assert "missed" not in failures(usual)
    assert "redundant" not in failures(usual)
    assert "missed" in failures(published)  # perfect responses on the very frame, which zero_cost=drop loses
    sample = batches.splits["split"].samples[0]
    outputs = RunFolder(batches.runs / "late").outputs(sample)
    of_page = [failure.kind for failure in analyze_video(sample, outputs, encode=count_letters).judged.failures]
    assert failures(late).count("missed") < of_page.count("missed")  # 3 s late, within ego4d's 8.5 s, not the usual 2.5
    assert "Response F1: 1.00." in usual.scores
    assert "Response F1: 1.00." not in published.scores
    assert "Judged with zero_cost drop, as the run was." in published.status.value
    assert "Judged with dataset ego4d, as the run was." in late.status.value
    assert "Judged with" not in usual.status.value


def test_teacher_forced_scores_are_shown_where_that_pass_was_made(context: AppContext, batches: BatchContext) -> None:
    assert "LM-PPL: 1.00." in open_run(context, batches, "published").scores
    assert "LM-PPL" not in open_run(context, batches, "usual").scores


def test_a_comparison_scores_both_runs_as_the_first_one_was_and_says_so(
    context: AppContext, batches: BatchContext
) -> None:
    view = comparing.compare(context, batches, "published", "usual", "both", "F1")
    assert (
        "usual was scored with different settings; here both are scored as published was. "
        "Scores: contents judged by cosine bands 0.5/0.8, text encoder letters, "
        "match window -2.5 to 2.5 s, zero-cost matches: drop" in view.said
    )
    (row,) = batches.compare("published", "usual", encode=count_letters).videos
    assert row.scores[0]["F1"] == row.scores[1]["F1"] < 1
    (row,) = batches.compare("usual", "published", encode=count_letters).videos
    assert row.scores[0]["F1"] == row.scores[1]["F1"] == 1
