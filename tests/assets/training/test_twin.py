"""A small-scale run of the program that trains the twin of the bundled checkpoint."""

from pathlib import Path

import pytest

from stepscope.assets.training.twin import TwinOptions, train_twin
from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model


@pytest.mark.slow
def test_a_trained_twin_streams_by_its_silent_token(tmp_path: Path) -> None:
    out = tmp_path / "twin"
    options = TwinOptions(out=out, work=tmp_path / "work", scenes=2, steps=2, interval=2, processes=1)
    train_twin(options)
    twin = load_model(out, device="cpu")
    assert twin.prompt.words(",") == (twin.silent_id,)
    assert twin.fit_config(StreamConfig()).decision_policy == "streaming-eos"
    assert not (out / "training").exists()
