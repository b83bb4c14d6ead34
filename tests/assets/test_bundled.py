"""The bundled videos agree with their manifest, and the saved run with the bundled checkpoint."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from stepscope.app.core.saved import OPENING_VIDEO
from stepscope.assets.scenes.recipes import HELD_OUT_FAMILY, TRAINED_FAMILIES
from stepscope.assets.score import SCORE_SEED
from stepscope.engine.cli.options import BUNDLED_RUN
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint_folder import identify_model
from stepscope.engine.records import FrameOutput
from stepscope.engine.video.reader import probe
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.reports.leaderboard import list_leaderboard_metrics
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.reports.tables import write_columns
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.output_folder import with_defaults
from stepscope.eval.runs.worker_messages import WorkerConfig
from tests.support.paths import ASSETS
from tests.support.streams.batches import run_sample

SAMPLES = {sample.video_id: sample for sample in read_samples(ASSETS / "demo" / "test.json")}
SCENES = {
    name: [video["scene"] for video in json.loads((ASSETS / "demo" / f"{name}.json").read_text("utf-8"))["videos"]]
    for name in ("val", "test")
}


def updates(sample: Sample) -> list[str]:
    return [turn.text for turn in sample.turns if turn.role == "update"]


def test_no_seed_is_in_two_splits_and_one_family_is_in_none_of_training() -> None:
    train = json.loads((ASSETS / "demo" / "train.json").read_text(encoding="utf-8"))
    vision = range(train["vision"]["first_seed"], train["vision"]["first_seed"] + train["vision"]["num_scenes"])
    seeds = [{scene["seed"] for scene in SCENES[name]} for name in ("val", "test")]
    seeds += [{scene["seed"] for scene in train["scenes"]}, set(vision), set(range(SCORE_SEED, SCORE_SEED + 10_000))]
    assert sum(map(len, seeds)) == len(set.union(*seeds))
    assert {scene["family"] for scene in train["scenes"]} == set(TRAINED_FAMILIES)
    assert HELD_OUT_FAMILY in {scene["family"] for scene in SCENES["test"]}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_a_bundled_video_is_as_long_and_large_as_promised(sample: Sample) -> None:
    assert sample.video_path is not None
    info = probe(sample.video_path)
    assert (info.width, info.height, info.codec, info.is_browser_playable) == (480, 360, "h264", True)
    assert 40 <= info.duration_s <= 60
    assert round(info.duration_s * sample.fps) == sample.num_frames
    ids = {step.id for step in sample.steps}
    assert set(updates(sample)) == {f"{i}->{t}" for i in ids for t in ("start", "complete")}


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
    assert sum(path.stat().st_size for path in files) < 760_000
    for name in ("run.json", "metrics.json"):
        assert '"/' not in (RUN.path / name).read_text(encoding="utf-8")


def test_its_columns_have_the_definitions_of_today(tmp_path: Path) -> None:
    write_columns(tmp_path / "columns.csv")
    assert (RUN.path / "columns.csv").read_bytes() == (tmp_path / "columns.csv").read_bytes(), REMEDY
