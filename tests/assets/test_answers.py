"""The adapter of the bundled checkpoint that answers questions agrees with its card and its base."""

import pytest

from stepscope.engine.config import StreamConfig
from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.checkpoint_folder import identify_model
from stepscope.engine.model.files.bundled import BUNDLED_CHECKPOINTS

REMEDY = "python -m stepscope.assets answers, then measure it again; see docs/checkpoints.md"


@pytest.fixture(scope="module")
def adapter() -> Checkpoint:
    return load_model("bundled-answer", device="cpu")


def test_it_is_an_adapter_of_the_bundled_checkpoint(adapter: Checkpoint) -> None:
    card = (BUNDLED_CHECKPOINTS["bundled-answer"] / "README.md").read_text(encoding="utf-8")
    assert identify_model(BUNDLED_CHECKPOINTS["bundled"]).digest in card, REMEDY
    assert adapter.digest in card, REMEDY
    assert adapter.base is not None
    assert adapter.base.resolve() == BUNDLED_CHECKPOINTS["bundled"].resolve()
    assert adapter.encoder_digest == load_model("bundled", device="cpu").encoder_digest
    assert adapter.fit_config(StreamConfig()).decision_policy == "answer"
