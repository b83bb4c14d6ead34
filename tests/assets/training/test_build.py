"""Small-scale runs of the programs that train and score the bundled checkpoint."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerBase

from stepscope.assets.scenes.recipes import NOUNS
from stepscope.assets.scenes.scene import Difficulty, make_scene
from stepscope.assets.score import Score, Tally, add_video, match_frames
from stepscope.assets.training import build, pretrain
from stepscope.assets.training.build import (
    BuildConfig,
    align_connector,
    build_checkpoint,
    corpus,
    permute_ids,
    training_clip,
)
from stepscope.assets.training.lookups import LEVELS, Lookups, embed_nouns
from stepscope.assets.training.pretrain import Probes, draw_examples, project, shuffled_mean
from stepscope.assets.training.tiny import build_tiny, train_tokenizer
from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.model.preprocessing import Normalization, normalize_images
from stepscope.engine.model.prompt import Prompt
from stepscope.engine.training.sequences import IGNORE_INDEX
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


def test_permuted_ids_keep_names_and_order_and_follow_the_turns() -> None:
    clip = training_clip(make_scene(3, difficulty=Difficulty.easy()))
    permuted = permute_ids(clip, np.random.default_rng(2))
    assert [step.name for step in permuted.steps] == [step.name for step in clip.steps]
    assert {step.id for step in permuted.steps} == {step.id for step in clip.steps}
    assert permuted.steps != clip.steps
    new = {old.id: step.id for old, step in zip(clip.steps, permuted.steps, strict=True)}
    for before, after in zip(clip.turns, permuted.turns, strict=True):
        step_id, _, transition = before.text.partition("->")
        assert after.text == (f"{new[step_id]}->{transition}" if before.role == "update" else before.text)


def test_lookups_get_harder_when_they_are_mastered(tokenizer: PreTrainedTokenizerBase) -> None:
    lookups = Lookups(Prompt(tokenizer), batch_size=3, seed=0)
    for _ in range(50):
        lookups.observe(1.0)
    assert lookups.level == 0
    for _ in range(500):
        lookups.observe(0.0)
    assert lookups.level == len(LEVELS) - 1


@pytest.mark.slow
@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_a_lookup_asks_for_the_id_of_the_noun_that_is_held(tokenizer: PreTrainedTokenizerBase, level: int) -> None:
    prompt = Prompt(tokenizer)
    lookups = Lookups(prompt, batch_size=1, seed=level)
    lookups.level = level
    for _ in range(20):
        sequence, held = lookups.draw()
        frames = [place for place, frame in enumerate(sequence.frames) if frame != IGNORE_INDEX]
        words = sequence.ids[: frames[0]]
        if level == 0:
            assert len(words) <= 2 * len(held) + 2  # ids and nouns alone, and perhaps a goal that is a noun
        for noun, place in zip(held, frames, strict=True):
            id_token = sequence.targets[place]
            noun_place = max(at for at, word in enumerate(words) if word == prompt.words(f" {NOUNS[noun]}")[0])
            assert [word for word in words[:noun_place] if prompt.text([word]).strip().isdigit()][-1] == id_token
            # the update that follows: opening, S, the id
            assert sequence.targets[place + 1 : place + 4] == [IGNORE_INDEX, id_token, IGNORE_INDEX]


def test_nouns_are_single_tokens_and_each_frame_is_its_own(tokenizer: PreTrainedTokenizerBase) -> None:
    model, prompt = build_tiny(tokenizer, seed=0), Prompt(tokenizer)
    with torch.no_grad():
        embedded = embed_nouns(model, prompt, torch.arange(len(NOUNS)))
    assert len({tuple(row.tolist()) for row in embedded}) == len(NOUNS)


def test_an_aligned_connector_shows_the_noun_that_is_held(tokenizer: PreTrainedTokenizerBase) -> None:
    model, prompt = build_tiny(tokenizer, seed=0), Prompt(tokenizer)
    random = torch.Generator().manual_seed(0)
    held = torch.randint(0, 5, (400, 2), generator=random)
    signals = torch.randn(5, 2048, generator=random)
    means = signals[held].sum(1) + 0.1 * torch.randn(400, 2048, generator=random)
    align_connector(model, prompt, means, held)
    with torch.no_grad():
        seen = project(model, signals[1:] + signals[0])  # the one hand holds a noun, the other nothing
        words = embed_nouns(model, prompt, torch.arange(len(NOUNS)))
    assert torch.cdist(seen, words).argmin(1).tolist() == [0, 1, 2, 3]


def test_the_mean_before_the_connector_projects_to_the_pooled_feature() -> None:
    model = build_tiny(train_tokenizer(["a"]), seed=0)
    images = normalize_images(draw_examples(0)["images"][:3], size=(96, 96), normalization=Normalization())
    with torch.no_grad():
        means, _ = shuffled_mean(model, images)
        assert torch.allclose(project(model, means)[:, None], model.encode_images(images), atol=1e-4)


def test_the_probes_learn_a_few_frames_by_heart() -> None:
    torch.manual_seed(0)
    examples = draw_examples(1)
    labels = {name: torch.from_numpy(values) for name, values in examples.items() if name != "images"}
    probes, pooled, patches = Probes(), torch.randn(16, 256), torch.randn(16, 64, 128)
    optimizer = torch.optim.AdamW(probes.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        loss = probes(pooled, patches, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 3


@pytest.mark.slow
def test_every_stage_runs_and_a_second_call_goes_on_where_the_first_was(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "train_tokenizer", lambda _: tokenizer)
    for module in (build, pretrain):
        monkeypatch.setattr(module, "BATCH_SIZE", 16)
    config = BuildConfig(
        work=tmp_path / "work", vision_scenes=2, lookup_steps=2, stream_scenes=3, stream_steps=2, processes=1
    )
    build_checkpoint(config, tmp_path / "one")
    assert not [path for path in config.work.iterdir() if path.is_dir()], "no saved state of a complete stage is left"
    (config.work / "stream.safetensors").unlink()
    build_checkpoint(config, tmp_path / "two")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, weights in one.items():  # sums of another order differ in their last bits, and fp16 rounds them
        torch.testing.assert_close(weights, two[name], atol=2e-3, rtol=0)
