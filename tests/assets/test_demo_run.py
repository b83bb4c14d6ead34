"""The bundled run is that of the bundled checkpoint, videos and settings."""

from dataclasses import asdict
from typing import Any

import pytest

from stepscope.app.core.saved import OPENING_VIDEO
from stepscope.engine.cli.options import BUNDLED_RUN
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint_folder import identify_model
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.reports.leaderboard import list_leaderboard_metrics
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.output_folder import with_defaults
from stepscope.eval.runs.worker_messages import WorkerConfig
from tests.support.paths import ASSETS
from tests.support.streams.batches import run_sample

RUN = RunFolder(BUNDLED_RUN)
SPLIT = read_split(ASSETS / "demo" / "test.json")
REMEDY = "python -m stepscope.assets run"
MEASURED = {"speak_prob", "update_prob", "latency_ms", "first_token_ms"}
"""Fields that differ between machines: probabilities a little."""


def test_it_has_the_bundled_checkpoint_the_default_settings_and_every_video() -> None:
    settings = RUN.settings()
    assert settings is not None
    assert settings["split"] == str(SPLIT.path.resolve())
    assert settings["model_digest"] == identify_model(ASSETS / "checkpoint").digest, REMEDY
    assert with_defaults(settings)["config"] == asdict(StreamConfig()), REMEDY
    assert [sample.video_id for sample in SPLIT.samples if RUN.find_finished(sample) is None] == [], REMEDY
    scored = read_metrics(RUN.path)
    assert {name: scored[name] for name in load_encoder().settings()} == load_encoder().settings(), REMEDY
    assert set(list_leaderboard_metrics()) <= scored["scores"].keys(), REMEDY


def test_a_video_that_is_run_again_has_the_same_outputs() -> None:
    sample = next(sample for sample in SPLIT.samples if sample.video_id == OPENING_VIDEO)
    checkpoint, work = load_model(ASSETS / "checkpoint", device="cpu"), WorkerConfig(checkpoint="")
    again = run_sample(checkpoint, work, sample).outputs
    assert [decided(output) for output in again] == [decided(output) for output in RUN.outputs(sample)], REMEDY
    for output, kept in zip(again, RUN.outputs(sample), strict=True):
        assert output.speak_prob == pytest.approx(kept.speak_prob, abs=1e-3)
        assert output.update_prob == pytest.approx(kept.update_prob, abs=1e-3)


def decided(output: FrameOutput) -> dict[str, Any]:
    return {name: value for name, value in asdict(output).items() if name not in MEASURED}


def test_it_is_small_and_names_no_folder_of_the_machine_that_made_it() -> None:
    files = [path for path in RUN.path.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 700_000
    for name in ("run.json", "metrics.json"):
        assert '"/' not in (RUN.path / name).read_text(encoding="utf-8")
