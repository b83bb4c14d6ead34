"""Linear layers by oneDNN: the same results, only where they pay off."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from stepscope.engine.loading import load_model
from stepscope.engine.model import devices
from stepscope.engine.model.checkpoint import Checkpoint, load_checkpoint
from stepscope.engine.model.devices import OneDnnLinear, use_onednn
from stepscope.engine.model.features.frame_encoder import encode_images
from tests.support.streams.published import write_online

pytestmark = pytest.mark.skipif(not devices.is_available(), reason="this PyTorch has no oneDNN")


Calls = list[tuple[tuple[int, ...], str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The shapes of the rows that oneDNN multiplied, and the functions that it applied."""
    seen: Calls = []
    multiply = devices._multiply

    def spy(
        rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, activation: str = "none"
    ) -> torch.Tensor:
        seen.append((tuple(rows.shape), activation))
        return multiply(rows, weight, bias, activation=activation)

    monkeypatch.setattr(devices, "_multiply", spy)
    return seen


def encode_noise(checkpoint: Checkpoint, *, num_frames: int) -> torch.Tensor:
    images = np.random.default_rng(0).integers(0, 256, (num_frames, 40, 60, 3), dtype=np.uint8)
    return torch.stack(encode_images(checkpoint, images))


@pytest.mark.parametrize("family", ["smolvlm", "siglip"])
def test_embeddings_and_hidden_states_are_those_of_pytorch(family: str, tiny_folder: Path, tmp_path: Path) -> None:
    folder = tiny_folder if family == "smolvlm" else write_online(tmp_path)
    plain, fast = load_checkpoint(folder, device="cpu"), load_model(folder, device="cpu")
    torch.testing.assert_close(
        encode_noise(fast, num_frames=5), encode_noise(plain, num_frames=5), atol=1e-5, rtol=1e-5
    )
    tokens = torch.randn(1, 40, fast.model.hidden_size)
    with torch.inference_mode():
        torch.testing.assert_close(fast.model(tokens), plain.model(tokens), atol=1e-4, rtol=1e-4)


def test_few_rows_gradients_and_other_types_are_left_to_pytorch(calls: Calls) -> None:
    layer = nn.Linear(8, 4)
    use_onednn(layer)
    assert type(layer) is OneDnnLinear
    rows = torch.randn(2, 8, 8)
    with torch.no_grad():
        layer(rows[:1])
        assert not calls
        torch.testing.assert_close(layer(rows), torch.nn.functional.linear(rows, layer.weight, layer.bias))
        assert calls == [((2, 8, 8), "none")]
        with pytest.raises(RuntimeError, match="dtype"):
            layer(rows.double())
    layer(rows).sum().backward()
    assert layer.weight.grad is not None
    assert len(calls) == 1
