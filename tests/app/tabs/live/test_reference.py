"""A recorded live session becomes a reference: a correction of its text is exported, and counts against the run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscope.app.cli.stepscope import main
from stepscope.app.reviews.actions import Action
from stepscope.app.reviews.store import open_store
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.live.frames import make_gap
from stepscope.engine.loading import load_model
from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_samples
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.live_recording import LiveRecording

pytestmark = pytest.mark.slow


def test_a_corrected_recording_is_a_reference_that_the_run_fails(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = Task(goal="build", steps=(Step(id="S1", name="attach the wheel"),))
    run, checkpoint = tmp_path / "live-1", load_model(tiny_folder, device="cpu")
    recording = LiveRecording(run, task=task, config=StreamConfig(), checkpoint=checkpoint, source="camera")
    before: FrameOutput | None = None
    for index in range(12):
        recording.video.write(index, np.full((48, 64, 3), 20 * index, np.uint8))
        gap = make_gap(index, fps=2, before=before, initial={"S1": "not_started"})
        before = replace(gap, speak_prob=0.5, update_prob=0.5, response="Attach the wheel." if index == 3 else None)
        recording.add(before)
    sample = recording.finish()
    assert sample is not None
    assert main(["score", str(run)]) == 2, "its turns are a copy of the model's own messages"
    assert "the turns there are a copy of the model's own" in capsys.readouterr().err
    assert not (run / "metrics.json").exists()
    (turn,) = name_turns(sample.turns)
    correction = Correction(reviewer="anna", kind="text", turn=turn, text="Stop: that is the wrong screw.")
    with open_store(tmp_path / "reviews.sqlite") as store:
        action = Action(kind="correction", reviewer="anna", video_id=sample.video_id, correction=correction)
        store.append(action)
    corrected, reviews = tmp_path / "corrected.json", str(tmp_path / "reviews.sqlite")
    words = ["export", "split", str(run / "split.json"), "--reviews", reviews, "--out", str(corrected)]
    assert main(words) == 0
    assert [one.text for one in read_samples(corrected)[0].turns] == ["Stop: that is the wrong screw."]
    assert count_failures(run, corrected) == 1


def count_failures(run: Path, split: Path) -> float:
    """Score a run against a split; return its number of failures."""
    assert main(["score", str(run), "--split", str(split)]) == 0
    return float(read_metrics(run)["scores"]["num_failures"])
