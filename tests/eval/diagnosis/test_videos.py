"""The diagnosis of real and tiny models: published roots of the bundled videos, and every family of models."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import stepscope
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, encode
from stepscope.engine.replay import Recording
from stepscope.engine.video.reader import read_frames
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Sample, Turn, build_task
from stepscope.eval.diagnosis.classes import UNEXPLAINED, classify
from stepscope.eval.diagnosis.experiments import Experiment, list_experiments
from stepscope.eval.diagnosis.videos import VideoDiagnosis, count_differing, diagnose_video
from stepscope.eval.matching.turns import DEFAULT_ENCODER, Encode, import_encoder
from stepscope.eval.reports.scoring import ScoreSettings
from tests.support.paths import ASSETS
from tests.support.streams import published_loop
from tests.support.streams.fakes import STEPS, count_letters, random_frames, tiny_checkpoint
from tests.support.streams.hub import write_hub
from tests.support.streams.published import write_online

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
SCORING = ScoreSettings(text_encoder=DEFAULT_ENCODER)
ROUNDS = {
    "robot-permuted": (9, 0),
    "robot-hard": (4, 1, 0),
    "house-hard": (6, 0),
    "flower-pot-hard": (6, 1, 0),
    "tower-hard": (16, 15, 9, 8, 3, 0),
    "toy-truck-hard-permuted": (3, 0),
    "sandwich-hard-permuted": (5, 0),
    "desk-lamp-hard-permuted": (9, 4, 0),
    "boat-hard-permuted": (6, 0),
}
ROOTS_S = {
    "robot-permuted": [15.0],
    "robot-hard": [9.5, 40.5],
    "house-hard": [29.0],
    "flower-pot-hard": [26.0, 28.5],
    "tower-hard": [22.0, 25.5, 36.0, 40.0, 44.5],
    "toy-truck-hard-permuted": [22.0],
    "sandwich-hard-permuted": [5.5],
    "desk-lamp-hard-permuted": [13.0, 29.0],
    "boat-hard-permuted": [25.0],
}
"""Roots of the bundled run, found by a program of its own; the other videos have no failure."""


@cache
def bundled_samples() -> dict[str, Sample]:
    return {sample.video_id: sample for sample in read_samples(ASSETS / "demo" / "test.json")}


@cache
def load_sentences() -> Encode:
    return import_encoder(DEFAULT_ENCODER).encode


@pytest.fixture(scope="module")
def bundled() -> Checkpoint:
    return load_model(ASSETS / "checkpoint", device="cpu")


def finish(steps: Iterator[str | VideoDiagnosis]) -> VideoDiagnosis:
    *_, found = steps
    assert isinstance(found, VideoDiagnosis)
    return found


def diagnose_bundled(checkpoint: Checkpoint, video_id: str, experiments: list[Experiment]) -> VideoDiagnosis:
    sample = bundled_samples()[video_id]
    assert sample.video_path is not None
    frames = encode(checkpoint, read_frames(sample.video_path, fps=sample.fps))
    config = checkpoint.fit_config(StreamConfig(fps=sample.fps))
    recording = Recording(checkpoint, frames, task=build_task(sample), config=config)
    list(recording.run())
    return finish(diagnose_video(recording, sample, experiments, encode=load_sentences(), scoring=SCORING))


@pytest.mark.parametrize(
    "video_id",
    [
        "robot-permuted",
        "flower-pot-hard",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (*ROOTS_S, "sandwich")  # of the videos without a failure, one is enough
            if name not in ("robot-permuted", "flower-pot-hard")
        ),
    ],
)
def test_the_roots_of_a_bundled_video_are_the_published_ones(bundled: Checkpoint, video_id: str) -> None:
    found = diagnose_bundled(bundled, video_id, [])
    assert found.num_failures == ROUNDS.get(video_id, (0,))
    assert [root.time_s for root in found.roots] == ROOTS_S.get(video_id, [])
    assert len(found.failures) == found.num_failures[0]
    assert found.num_chain_tokens < 2 * found.num_run_tokens
    sample = bundled_samples()[video_id]
    wrong_frames = {int(sample.turns[number].time_s * sample.fps) for number in found.gold.wrong}
    assert {*wrong_frames, *found.gold.false_triggers} == {root.frame for root in found.roots}, (
        "under gold history, the model is wrong at the roots and nowhere else"
    )


def test_ids_explain_the_root_of_the_permuted_robot_and_the_placebo_moves_nothing(bundled: Checkpoint) -> None:
    names = ("ids in listing order", "thresholds moved by nothing")
    tried = [experiment for experiment in list_experiments() if experiment.name in names]
    found = classify([diagnose_bundled(bundled, "robot-permuted", tried)], tried)
    assert [(one.cause, one.fixed_by) for one in found.roots] == [("prompt: ids", ("ids in listing order",))]
    moved = next(effect for effect in found.effects if effect.is_placebo)
    assert (moved.fixed, moved.broken, moved.added) == (0, 0, 0)


SAMPLE = Sample(
    video_id="tiny",
    fps=2.0,
    num_frames=14,
    goal="build the toy truck",
    steps=STEPS,
    turns=(
        Turn(time_s=1.0, role="assistant", text="Let's build the toy truck."),
        Turn(time_s=2.0, role="update", text="S1->start"),
        Turn(time_s=3.0, role="user", text="What is next?"),
        Turn(time_s=5.0, role="update", text="S1->complete"),
        Turn(time_s=5.0, role="assistant", text="Good."),
    ),
)


def load_heads(folder: Path) -> tuple[Checkpoint, StreamConfig]:
    checkpoint = tiny_checkpoint(folder, is_terse=True)
    return checkpoint, StreamConfig(max_new_tokens=6, max_update_tokens=6, max_updates_per_frame=2)


def load_family(write: Callable[[Path], Path]) -> Callable[[Path], tuple[Checkpoint, StreamConfig]]:
    def load(folder: Path) -> tuple[Checkpoint, StreamConfig]:
        checkpoint = load_model(write(folder), device="cpu")
        return checkpoint, published_loop.settings(checkpoint)

    return load


FAMILIES: dict[str, Callable[[Path], tuple[Checkpoint, StreamConfig]]] = {
    "heads": load_heads,
    "llama": load_family(lambda folder: write_online(folder, terse=True)),
    "hub": load_family(lambda folder: write_hub(folder, "qwen2_5_vl")),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_random_weights_of_every_family_get_roots_and_never_a_class(family: str, tmp_path: Path) -> None:
    checkpoint, config = FAMILIES[family](tmp_path)
    frames = list(random_frames(checkpoint, SAMPLE.num_frames))

    def embed(sample: Sample, shift_s: float) -> list[FrameFeatures]:
        return list(random_frames(checkpoint, sample.num_frames, seed=round(100 * shift_s) + sample.num_frames))

    recording = Recording(checkpoint, frames, task=build_task(SAMPLE), config=config)
    outputs = list(recording.run())
    tried = list_experiments()
    steps = diagnose_video(recording, SAMPLE, tried, encode=count_letters, scoring=SCORING, embed=embed)
    video = finish(steps)
    assert video.problems == {}
    assert video.num_failures[-1] == 0
    assert len(video.roots) == len(video.num_failures) - 1 > 0
    assert len(video.failures) == video.num_failures[0]
    assert {one.name for one in tried if one.kind != "forgetting"} - video.results.keys() <= {
        "ids in listing order",
        "ids at random",
        "steps in the order done",
        "steps at random",
    }
    found = classify([video], tried)
    assert {root.cause for root in found.roots} <= {UNEXPLAINED, "history"}
    assert not any(effect.is_accepted for effect in found.effects)
    assert count_differing(outputs, outputs) == 0
    assert count_differing(outputs, outputs[:-1]) == 1


def test_the_public_function_explains_one_recording(tmp_path: Path) -> None:
    checkpoint, config = load_heads(tmp_path)
    recording = Recording(checkpoint, random_frames(checkpoint, 14), task=build_task(SAMPLE), config=config)
    list(recording.run())
    found = stepscope.explain(recording, SAMPLE, experiments=(), encode=count_letters)
    assert len(found.roots) == len(found.videos[0].num_failures) - 1 > 0


def test_consequences_of_a_sampled_run_are_looked_for_at_other_seeds(tmp_path: Path) -> None:
    checkpoint, config = load_heads(tmp_path)
    recording = Recording(checkpoint, random_frames(checkpoint, 14), task=build_task(SAMPLE), config=config)
    list(recording.run())
    plain = finish(diagnose_video(recording, SAMPLE, [], encode=count_letters, scoring=SCORING))
    assert {(root.kept_share, root.corrected_share) for root in plain.roots} == {(None, None)}

    sampled = replace(config, do_sample=True, temperature=1e-6)  # all seeds write the most likely tokens
    recording = Recording(checkpoint, random_frames(checkpoint, 14), task=build_task(SAMPLE), config=sampled)
    list(recording.run())
    found = finish(diagnose_video(recording, SAMPLE, [], encode=count_letters, scoring=SCORING))
    assert [root.frame for root in found.roots] == [root.frame for root in plain.roots]
    shares = [(root.kept_share, root.corrected_share) for root in found.roots if root.num_consequences]
    assert shares[0] == (1, 0), "each happens without the correction, and none with it"
    assert all(corrected == 0 for _, corrected in shares)
    assert {root.kept_share for root in found.roots if not root.num_consequences} <= {None}


def test_a_sample_without_a_reference_has_no_diagnosis(tmp_path: Path) -> None:
    checkpoint, config = load_heads(tmp_path)
    plain = Recording(checkpoint, random_frames(checkpoint, 4), config=config)
    list(plain.run())
    unscored = replace(SAMPLE, has_reference=False)
    with pytest.raises(ValueError, match="has no reference, so it has no diagnosis, only evidence and what-if"):
        finish(diagnose_video(plain, unscored, [], encode=count_letters, scoring=SCORING))
