"""The stages of the bundled checkpoint run in the sessions of ``stepscope train``."""

import os
import signal
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from pathlib import Path

import numpy as np
import pytest
import torch

from stepscope.assets.training import pretrain
from stepscope.assets.training.build import corpus
from stepscope.assets.training.lookups import LookupObjective, Lookups
from stepscope.assets.training.pretrain import Examples, VisionObjective, draw_examples, vision_batches
from stepscope.assets.training.stages import run_stage
from stepscope.assets.training.tiny import build_tiny, train_tokenizer
from stepscope.engine.model.prompt import Prompt
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.objective import Batch
from stepscope.engine.training.trainer import B, DivergedError, Trainer

CONFIG = TrainConfig(num_steps=4, learning_rate=1e-3, autocast="float32", seed=5)


def vision_trainer() -> Trainer[Examples]:
    return Trainer(VisionObjective(build_tiny(train_tokenizer(["a"]), seed=0), CONFIG))


def interrupted(batches: Iterable[B], *, after: int) -> Iterator[B]:
    """Yield batches; send Ctrl-C with the one numbered ``after``."""
    for number, batch in enumerate(batches, start=1):
        if number == after:
            os.kill(os.getpid(), signal.SIGINT)
        yield batch


def test_an_interrupted_vision_stage_that_continues_equals_one_that_was_not(tmp_path: Path) -> None:
    examples = draw_examples(3)
    drawn = [{name: values[start::8] for name, values in examples.items()} for start in range(CONFIG.num_steps)]
    whole, first, again = vision_trainer(), vision_trainer(), vision_trainer()
    before = whole.state()[0]["model.0.embeddings.patch_embedding.weight"].clone()
    run_stage(tmp_path / "whole", whole, lambda first: iter(drawn[first:]), settings={})
    assert whole.num_steps_done == 4
    assert not torch.equal(before, whole.state()[0]["model.0.embeddings.patch_embedding.weight"]), "the tower learns"

    folder = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        run_stage(folder, first, lambda _: interrupted(drawn, after=2), settings={})
    assert first.num_steps_done == 2
    run_stage(folder, again, lambda first: iter(drawn[first:]), settings={})
    assert again.num_steps_done == 4
    for name, tensor in whole.state()[0].items():
        assert torch.equal(tensor, again.state()[0][name]), name
    assert (folder / "training" / "losses.csv").read_text().startswith("step,probes,held_accuracy\n1,")


@pytest.mark.slow
def test_an_interrupted_curriculum_continues_at_its_level(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(corpus())

    def make(mastered: int) -> tuple[Trainer[Batch], Lookups]:
        lookups = Lookups(Prompt(tokenizer), batch_size=1, seed=0)
        for _ in range(mastered):
            lookups.observe(0.0)
        return Trainer(LookupObjective(build_tiny(tokenizer, seed=0), CONFIG, lookups)), lookups

    whole, of_whole = make(30)
    run_stage(tmp_path / "whole", whole, lambda _: iter(of_whole), settings={})
    first, of_first = make(30)
    with pytest.raises(KeyboardInterrupt):
        run_stage(tmp_path / "parts", first, lambda _: interrupted(of_first, after=2), settings={})
    again, of_again = make(0)
    run_stage(tmp_path / "parts", again, lambda _: iter(of_again), settings={})
    assert of_again.level == of_whole.level > 0
    assert of_again.state() == of_whole.state()
    for name, tensor in whole.state()[0].items():
        assert torch.equal(tensor, again.state()[0][name]), name


def test_a_diverged_stage_ends_and_another_start_does_not_continue_it(tmp_path: Path) -> None:
    batch = {name: values[:2] for name, values in draw_examples(0).items()}
    broken = {**batch, "hand_xy": np.full_like(batch["hand_xy"], np.nan)}
    trainer = vision_trainer()
    with pytest.raises(DivergedError, match="the loss of step 1 is nan"):
        run_stage(tmp_path / "vision", trainer, lambda _: repeat(broken), settings={})
    run_stage(tmp_path / "new", trainer, lambda _: repeat(batch), settings={"start": 0})
    with pytest.raises(ValueError, match=r"was trained with start 0 \(now 1\)"):
        run_stage(tmp_path / "new", trainer, lambda _: repeat(batch), settings={"start": 1})


@pytest.mark.slow
def test_skipped_batches_are_not_drawn_and_leave_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrain, "BATCH_SIZE", 1)  # 2 scenes a round
    whole = list(vision_batches(7, 3, processes=1))
    assert len(whole) == 48
    found = list(islice(vision_batches(7, 3, processes=1, first_step=33), 2))  # of the second round
    for one, other in zip(found, whole[33:], strict=False):
        assert all(np.array_equal(one[name], other[name]) for name in one)
