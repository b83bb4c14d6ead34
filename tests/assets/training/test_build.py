"""Small-scale runs of the programs that train and score the bundled checkpoint."""

from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from stepscope.assets.scenes.scene import Difficulty, make_scene
from stepscope.assets.score import Score, Tally, add_video, match_frames
from stepscope.assets.training import build, pretrain
from stepscope.assets.training.build import (
    BuildOptions,
    build_checkpoint,
    corpus,
    training_clip,
)
from stepscope.assets.training.tiny import train_tokenizer
from stepscope.engine.config import StreamConfig
from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.loading import load_model
from tests.support.data.records import make_output


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return train_tokenizer(corpus())


def test_frames_match_nearest_first_and_each_once() -> None:
    # 4 is nearest to 4; 5 then takes 6, one away; 9 has nothing within one frame
    assert sorted(match_frames([4, 5, 9], [4, 6])) == [(4, 4), (5, 6)]
    assert match_frames([], [1]) == []
    assert match_frames([1, 2], [2]) == [(2, 2)]


def test_a_tally_counts_frames_and_texts() -> None:
    tally = Tally()
    tally.add({1: ["a"], 5: ["b", "c"], 9: ["d"]}, {1: ["x"], 6: ["c", "b"]})
    # 2 pairs of 3 predicted and 2 expected frames: F1 = 2 * 2 / 5; one of two pairs has the same texts
    assert (tally.f1, tally.exact_rate) == (0.8, 0.5)


def test_nothing_expected_and_nothing_written_is_undefined_not_zero() -> None:
    assert np.isnan(Tally().f1)
    assert np.isnan(Tally().exact_rate)


def test_the_reference_scores_one_against_itself() -> None:
    scene = make_scene(7, difficulty=Difficulty.hard())
    clip, state, outputs = training_clip(scene), initial_state(scene.steps), []
    for frame in range(scene.num_frames):
        texts = {
            r: [t.text for t in clip.turns if (t.frame_index, t.role) == (frame, r)] for r in ("update", "assistant")
        }
        for text in texts["update"]:
            state = dict(apply_update(state, text).state)
        outputs.append(
            make_output(
                frame,
                speak_prob=0,
                update_prob=0,
                response=texts["assistant"][0] if texts["assistant"] else None,
                updates=tuple(texts["update"]),
                dst_state=state,
                latency_ms=0,
            )
        )
    score = Score()
    add_video(score, scene, outputs)
    assert (score.updates.f1, score.updates.exact_rate, score.responses.f1, score.responses.exact_rate) == (1, 1, 1, 1)
    assert score.right_states == score.num_frames == scene.num_frames


@pytest.mark.slow
def test_every_stage_runs(tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "train_tokenizer", lambda _: tokenizer)
    for module in (build, pretrain):
        monkeypatch.setattr(module, "BATCH_SIZE", 16)
        monkeypatch.setattr(module, "drawing_pool", ThreadPool)
    config = BuildOptions(
        out=tmp_path / "out",
        work=tmp_path / "work",
        vision_scenes=2,
        lookup_steps=2,
        stream_scenes=3,
        stream_steps=2,
        processes=1,
    )
    build_checkpoint(config)
    assert not [path for path in config.work.iterdir() if path.is_dir()], "no saved state of a complete stage is left"
    assert load_model(tmp_path / "out", device="cpu").fit_config(StreamConfig()).decision_policy == "heads"
