"""A finished run of two videos of one task, without a model."""

from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Split, Turn
from stepscope.eval.reports.scoring import ScoredRun, make_report, score_run, write_tables
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.support.data.batches import SCORING, no_java
from tests.support.data.records import make_output, make_sample
from tests.support.streams.fakes import count_letters

STEPS = (Step(id="S1", name="set down the hull"), Step(id="S2", name="hang the sail"))


SAMPLES = tuple(
    make_sample(
        video_id=name,
        num_frames=4,
        goal="build the boat",
        steps=STEPS,
        turns=(
            Turn(time_s=0.5, role="update", text="S1->start"),
            Turn(time_s=1.0, role="assistant", text="Hang the sail."),
        ),
    )
    for name in ("a", "b")
)


SPLIT = Split(path=Path("val.json"), entries=SAMPLES)


SETTINGS: dict[str, Any] = {
    "split": "/val.json",
    "checkpoint": "tiny",
    "model_digest": "d",
    "heads_digest": None,
    "device": "cpu",
    "devices": ["cpu"],
    "config": {"speak_threshold": 0.5, "seed": 0},
    "live": False,
    "kept_features": False,
    "text_encoder": "letters",
    "dataset": "",
    "zero_cost": "keep",
}


def outputs() -> list[FrameOutput]:
    return [
        make_output(
            index,
            speak_prob=0.2 * index,
            response="Hang it." if index == 2 else None,
            updates=("S1->start",) if index == 1 else (),
            dst_state={"S1": "in_progress" if index else "not_started", "S2": "not_started"},
            first_token_ms=2.0 if index == 2 else None,
            legality=("legal",) if index == 1 else (),
        )
        for index in range(4)
    ]


def write_run(path: Path) -> Path:
    """Write a finished and scored run of both videos."""
    with RunFolder.open(path, SETTINGS) as folder:
        for sample in SAMPLES:
            record = VideoRecord(
                video_id=sample.video_id, source=digest_sample(sample), num_frames=4, wall_s=0.5, peak_memory_mb=9.0
            )
            folder.save_video(record, outputs())
    write_tables(path, score(path), SETTINGS)
    return path


def score(run: Path) -> ScoredRun:
    few = partial(make_report, num_resamples=2)
    with no_java() as scorer, patch("stepscope.eval.reports.scoring.make_report", few):
        return score_run(run, SPLIT, SCORING, encode=count_letters, scorer=scorer)
