"""The device and the dtype of a model, and oneDNN, which multiplies on a CPU."""

from functools import cache
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, pad

from stepscope.engine.errors import first_line


def resolve_device(device: str = "auto") -> torch.device:
    """Resolve ``auto`` to the first available of cuda, mps and cpu. Raises ``ValueError`` for an absent device.

    On cuda, cuDNN's attention is disabled for the process: it makes a plan for each new context length, which takes
    longer than the pass. Captured passes, whose lengths are fixed, use it.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        target = torch.device(device)
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} is not available: {first_line(error)}") from error
    if target.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
    return target


def resolve_dtype(dtype: str, device: torch.device, *, stored: str = "") -> torch.dtype:
    """Resolve ``auto`` for a device: bfloat16 on a GPU that supports it, else float16; float32 on a CPU.

    Weights that are stored in bfloat16 (``stored`` is ``BF16``) keep it on a CPU with instructions for it: they take
    half of the memory.
    """
    names = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    if dtype in names:
        return names[dtype]
    if dtype != "auto":
        raise ValueError(f"dtype must be auto, {', '.join(names)}; got {dtype!r}")
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if device.type == "cpu" and stored == "BF16" and multiplies_bfloat16():
        return torch.bfloat16
    return torch.float16 if device.type == "mps" else torch.float32


def name_dtype(dtype: torch.dtype) -> str:
    """Return the name of a dtype as ``--dtype`` takes it."""
    return str(dtype).removeprefix("torch.")


def multiplies_bfloat16() -> bool:
    """Return whether this CPU has instructions for bfloat16; without them, a pass takes several times as long."""
    return is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


_MIN_ROWS: Final = 16
"""With fewer rows, the weights take longer to rearrange than to multiply."""
_MLPS: Final = frozenset({"SmolVLMVisionMLP", "SiglipMLP"})
"""Classes of transformers whose ``forward`` is ``fc2(activation_fn(fc1(x)))``."""


def use_onednn(model: nn.Module) -> None:
    """Let the float32 linear layers of a model on a CPU use oneDNN where it is faster and no gradients are needed.

    The weights stay as they are. Nothing changes where PyTorch was built without oneDNN.
    """
    if not is_available():
        return
    from transformers.activations import GELUTanh  # noqa: PLC0415 - the leading process of a run lists devices alone

    for module in model.modules():
        if type(module) is nn.Linear and module.weight.is_cpu and module.weight.dtype is torch.float32:
            module.__class__ = OneDnnLinear
    for module in model.modules():
        if type(module).__name__ in _MLPS and isinstance(module.activation_fn, GELUTanh):
            module.__class__ = type(type(module).__name__, (_FusedGelu, type(module)), {})


@cache
def is_available() -> bool:
    """Return whether PyTorch has the operator of oneDNN, and it gives PyTorch's results."""
    rows, weight = torch.linspace(-2, 2, 16 * 8).view(16, 8), torch.linspace(-1, 1, 4 * 8).view(4, 8)
    bias = torch.tensor([0.5, -0.5, 2.0, 0.0])
    try:
        found = _multiply(rows, weight, bias), _multiply(rows, weight, bias, activation="gelu")
    except (AttributeError, RuntimeError, TypeError):  # PyTorch without oneDNN, or with another signature
        return False
    product = linear(rows, weight, bias)
    expected = product, gelu(product, approximate="tanh")
    return all(torch.allclose(*pair, rtol=1e-5, atol=1e-5) for pair in zip(found, expected, strict=True))


class OneDnnLinear(nn.Linear):
    """A linear layer that multiplies with oneDNN from 16 rows on, if no gradients are needed."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``[..., out_features]`` of ``[..., in_features]``."""
        return _multiply(input, self.weight, self.bias) if self.suits(input) else super().forward(input)

    def suits(self, rows: Tensor) -> bool:
        """Return whether oneDNN multiplies rows ``[..., in_features]``. A compiler chooses its own kernels."""
        is_free = not (torch.is_grad_enabled() or torch.compiler.is_compiling())
        return is_free and rows.dtype is torch.float32 and rows.numel() >= _MIN_ROWS * self.in_features


class _FusedGelu(nn.Module):
    """Mixin of an MLP whose GELU is a part of its first product."""

    fc1: nn.Module
    fc2: nn.Module

    def forward(self, hidden_states: Tensor) -> Tensor:
        first = self.fc1
        if not isinstance(first, OneDnnLinear) or not first.suits(hidden_states):
            plain: Tensor = super().forward(hidden_states)  # that of the MLP
            return plain
        activated: Tensor = self.fc2(_multiply(hidden_states, first.weight, first.bias, activation="gelu"))
        return activated


def _multiply(rows: Tensor, weight: Tensor, bias: Tensor | None, *, activation: str = "none") -> Tensor:
    """Multiply rows ``[..., K]`` with a weight ``[N, K]``; add the bias and apply ``activation``."""
    flat = rows.reshape(-1, rows.shape[-1])
    num_rows = len(flat)
    missing = pad_rows(num_rows) - num_rows
    operator: Any = torch.ops.mkldnn._linear_pointwise  # of TorchInductor; is_available checks it
    product: Tensor = operator(pad(flat, (0, 0, 0, missing)) if missing else flat, weight, bias, activation, [], "tanh")
    return product[:num_rows].view(*rows.shape[:-1], -1)


def pad_rows(num_rows: int) -> int:
    """Return the next of 16, 24, 32, 48, 64, 96, ... rows.

    oneDNN compiles kernels for each number of rows, which take 0.3 ms and 0.6 MB, and keeps about a thousand of them.
    """
    power = 1 << (num_rows - 1).bit_length()
    return power * 3 // 4 if num_rows <= power * 3 // 4 else power
