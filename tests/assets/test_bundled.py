"""The bundled videos agree with their manifest, and the checkpoint reaches the scores in the README."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from stepscope.app.core.saved import OPENING_VIDEO
from stepscope.assets.scenes.recipes import HELD_OUT_FAMILY, TRAINED_FAMILIES
from stepscope.assets.score import SCORE_SEED, Tally
from stepscope.engine.cli.options import BUNDLED_RUN
from stepscope.engine.config import StreamConfig
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import parse_steps
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.checkpoint_folder import identify_model
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode
from stepscope.engine.records import FrameOutput
from stepscope.engine.streamer import Streamer
from stepscope.engine.video.reader import probe, read_frames
from stepscope.eval.data.loading import read_samples, read_split
from stepscope.eval.data.samples import Sample
from stepscope.eval.matching.sentence_encoders import load_encoder
from stepscope.eval.reports.leaderboard import list_leaderboard_metrics
from stepscope.eval.reports.table_files import read_metrics
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
EASY = [SAMPLES[name] for name in ("toy-truck", "sandwich", "desk-lamp", "boat")]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_model(ASSETS / "checkpoint", device="cpu")


def features_of(checkpoint: Checkpoint, sample: Sample) -> list[FrameFeatures]:
    assert sample.video_path is not None
    return list(encode(checkpoint, read_frames(sample.video_path, fps=2)))


def run(checkpoint: Checkpoint, sample: Sample, config: StreamConfig | None = None) -> list[FrameOutput]:
    task = Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns)
    streamer = Streamer(checkpoint, config or StreamConfig(lookahead=16))
    return list(streamer.run(features_of(checkpoint, sample), task))


def updates(sample: Sample) -> list[str]:
    return [turn.text for turn in sample.turns if turn.role == "update"]


def written(outputs: Sequence[FrameOutput]) -> list[str]:
    return [text for output in outputs for text in output.updates]


def test_there_are_four_videos_of_each_kind_and_the_user_speaks_in_some() -> None:
    kinds = Counter((scene["decoy"] > 0, scene["permuted"]) for scene in SCENES["test"])
    assert len(kinds) == 4
    assert min(kinds.values()) >= 4
    assert sum(bool(sample.user_turns) for sample in SAMPLES.values()) >= 4
    for sample in SAMPLES.values():
        assert {turn.role for turn in sample.turns} >= {"update", "assistant"}


def test_no_seed_is_in_two_splits_and_one_family_is_in_none_of_training() -> None:
    train = json.loads((ASSETS / "demo" / "train.json").read_text(encoding="utf-8"))
    vision = range(train["vision"]["first_seed"], train["vision"]["first_seed"] + train["vision"]["num_scenes"])
    seeds = [{scene["seed"] for scene in SCENES[name]} for name in ("val", "test")]
    seeds += [{scene["seed"] for scene in train["scenes"]}, set(vision), set(range(SCORE_SEED, SCORE_SEED + 10_000))]
    assert sum(map(len, seeds)) == len(set.union(*seeds))
    assert {scene["family"] for scene in train["scenes"]} == set(TRAINED_FAMILIES)
    assert HELD_OUT_FAMILY in {scene["family"] for scene in SCENES["test"]}


def test_causes_stand_beside_the_turns_that_they_spoil() -> None:
    manifest = json.loads((ASSETS / "demo" / "test.json").read_text(encoding="utf-8"))
    causes = {turn["cause"] for video in manifest["videos"] for turn in video["turns"]}
    assert causes >= {None, "drop", "decoy", "swap", "light", "noise"}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_a_bundled_video_is_as_long_and_large_as_promised(sample: Sample) -> None:
    assert sample.video_path is not None
    info = probe(sample.video_path)
    assert (info.width, info.height, info.codec, info.is_browser_playable) == (480, 360, "h264", True)
    assert 40 <= info.duration_s <= 60
    assert round(info.duration_s * sample.fps) == sample.num_frames
    ids = {step.id for step in sample.steps}
    assert set(updates(sample)) == {f"{i}->{t}" for i in ids for t in ("start", "complete")}


def test_the_assets_stay_small() -> None:
    sizes = [path.stat().st_size for path in ASSETS.rglob("*") if path.is_file()]
    assert sum(sizes) < 40e6
    assert max(sizes) < 16e6


def test_the_steps_file_of_the_readme_are_the_videos_steps() -> None:
    text = (ASSETS / "demo" / "toy-truck.txt").read_text(encoding="utf-8")
    assert parse_steps(text) == SAMPLES["toy-truck"].steps


def test_an_easy_video_is_followed_without_an_error(checkpoint: Checkpoint) -> None:
    sample = SAMPLES["toy-truck"]
    outputs = run(checkpoint, sample, StreamConfig(lookahead=16))
    assert written(outputs) == updates(sample)
    assert set(outputs[-1].dst_state.values()) == {"completed"}


def test_every_steps_state_outlives_two_refreshes(checkpoint: Checkpoint) -> None:
    sample = SAMPLES["desk-lamp"]
    short = StreamConfig(lookahead=16, max_new_tokens=30, max_update_tokens=8, max_seq_len=320, reserved_seq_len=80)
    outputs = run(checkpoint, sample, short)
    assert sum(output.refreshed for output in outputs) >= 2
    assert written(outputs) == updates(sample)
    assert all(set(output.dst_state) == {step.id for step in sample.steps} for output in outputs)


def tally(outputs: Sequence[FrameOutput], sample: Sample) -> Tally:
    """Count the updates of a run, with a tolerance of one frame."""
    expected: dict[int, list[str]] = {}
    for turn in sample.turns:
        if turn.role == "update":
            expected.setdefault(round(turn.time_s * 2), []).append(turn.text)
    made = Tally()
    made.add({output.frame_index: output.updates for output in outputs if output.updates}, expected)
    return made


@pytest.mark.slow
def test_it_looks_with_the_frames_in_another_order_its_updates_are_lost(checkpoint: Checkpoint) -> None:
    in_order, shuffled = Tally(), Tally()
    for sample in EASY:
        frames = features_of(checkpoint, sample)
        order = np.random.default_rng(0).permutation(len(frames))
        mixed = [replace(frame, features=frames[other].features) for frame, other in zip(frames, order, strict=True)]
        task = Task(goal=sample.goal, steps=sample.steps)
        for made, source in ((in_order, frames), (shuffled, mixed)):
            outputs = list(Streamer(checkpoint, StreamConfig(lookahead=16)).run(source, task))
            one = tally(outputs, sample)
            made.predicted += one.predicted
            made.expected += one.expected
            made.matched += one.matched
    assert in_order.f1 > 0.9
    assert shuffled.f1 < 0.5


@pytest.mark.slow
def test_it_reads_with_other_ids_in_the_prompt_its_updates_follow(checkpoint: Checkpoint) -> None:
    matched = exact = 0
    for sample in EASY:
        ids = [step.id for step in sample.steps]
        new = dict(zip(ids, [*ids[2:], *ids[:2]], strict=True))
        other = replace(
            sample,
            steps=tuple(replace(step, id=new[step.id]) for step in sample.steps),
            turns=tuple(
                replace(turn, text=new[turn.text[:2]] + turn.text[2:]) if turn.role == "update" else turn
                for turn in sample.turns
            ),
        )
        made = tally(run(checkpoint, other), other)
        matched, exact = matched + made.matched, exact + made.exact
    assert matched >= 20
    assert exact / matched > 0.7


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
