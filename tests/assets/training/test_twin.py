"""A small-scale run of the program that trains the twin of the bundled checkpoint."""

import json
import shutil
from pathlib import Path

import pytest

from stepscope.assets.demo_videos import DemoVideo, draw_lesson
from stepscope.assets.training.twin import AnswerConfig, TwinConfig, train_answers, train_twin, write_clips
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.training.dataset import read_clips
from tests.support.paths import ASSETS


@pytest.mark.slow
def test_clips_are_those_of_the_training_split_and_kept_ones_are_not_drawn_again(tmp_path: Path) -> None:
    checkpoint = load_model(ASSETS / "checkpoint", device="cpu")
    path = write_clips(checkpoint, tmp_path, num_scenes=1, processes=1)
    (clip,) = read_clips(path, checkpoint, fps=2)
    wanted = json.loads((ASSETS / "demo" / "train.json").read_text(encoding="utf-8"))["scenes"][0]
    assert clip.clip.num_frames == wanted["num_frames"]
    assert clip.clip.goal.endswith(wanted["family"])
    assert {turn.role for turn in clip.clip.turns} == {"update", "user", "assistant"}
    features = next(tmp_path.glob("*.safetensors"))
    before = features.stat().st_mtime_ns
    write_clips(checkpoint, tmp_path, num_scenes=1, processes=1)
    assert features.stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_trained_twin_streams_by_its_silent_token(tmp_path: Path) -> None:
    config = TwinConfig(work=tmp_path / "work", scenes=2, steps=2, interval=2, processes=1)
    out = tmp_path / "twin"
    train_twin(config, base=ASSETS / "checkpoint", out=out)
    twin = load_model(out, device="cpu")
    assert twin.prompt.words(",") == (twin.silent_id,)
    assert twin.fit_config(StreamConfig()).decision_policy == "streaming-eos"
    assert not (out / "training").exists()


@pytest.mark.slow
def test_a_trained_adapter_streams_by_its_answers_beside_its_base(tmp_path: Path) -> None:
    config = AnswerConfig(work=tmp_path / "work", scenes=2, steps=2, interval=2, processes=1)
    base, out = tmp_path / "checkpoint", tmp_path / "answer"
    shutil.copytree(ASSETS / "checkpoint", base)
    train_answers(config, base=base, out=out)
    assert json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"] == "../checkpoint"
    assert load_model(out, device="cpu").fit_config(StreamConfig()).decision_policy == "answer"


def test_the_lesson_has_the_held_out_family_and_the_others_and_no_seed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, list[DemoVideo]] = {}
    monkeypatch.setattr(
        "stepscope.assets.demo_videos.draw_split",
        lambda videos, manifest, *, video_fps: drawn.update({manifest.stem: videos}),
    )
    draw_lesson(tmp_path, num_new=9, num_kept=7)
    assert sorted(drawn) == ["train", "val"]
    assert [video.family for video in drawn["train"]].count("tower") == 9
    assert len({video.family for video in drawn["train"]}) == 8
    assert all(len({video.video_id for video in videos}) == len(videos) for videos in drawn.values())
    seeds = [video.seed for videos in drawn.values() for video in videos]
    assert len(set(seeds)) == len(seeds)
