"""The stages of the bundled checkpoint run in the sessions of ``stepscope train``."""

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch

from stepscope.assets.training.build import run_stage
from stepscope.assets.training.pretrain import Examples, VisionObjective, draw_examples
from stepscope.assets.training.tiny import build_tiny, train_tokenizer
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.trainer import B, Trainer

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
    assert (folder / "training" / "losses.csv").read_text().startswith("step,probes\n1,")
