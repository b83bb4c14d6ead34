"""Two steps of a layer, which take seven of PyTorch's kernels, as one of Triton's each on a CUDA device.

The first rotates queries and keys, and writes keys and values to the cache; the second is SiLU times up. Triton's are
used if they give PyTorch's results for the sizes of a model, which is checked once. Sizes: ``N`` tokens, ``H`` query
heads, ``K`` key heads, ``W`` width of a head.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import silu

from stepscope.engine.errors import first_line

TOLERANCES: Final = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
"""Largest accepted difference from PyTorch's results for numbers from a standard normal distribution, as a share of a
number, at least of 1. Triton's kernels round once, PyTorch's after each operation."""


Rotate = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """One implementation of both steps."""

    rotate: Rotate
    """Rotate states ``[N, H + 2 * K, W]``, queries, keys and values, by ``cos`` and ``sin [N, W]``, the first half of
    ``sin`` being negated.

    Keys and values are written to ``rows [N]`` of two buffers ``[R, K, W]``; queries are returned, ``[N, H, W]``. The
    states may be overwritten.
    """
    activate: Callable[[Tensor], Tensor]
    """Return SiLU of the first half of ``[N, 2 * I]`` times the second half, ``[N, I]``."""


def _rotate(states: Tensor, cos: Tensor, sin: Tensor, rows: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    num_kv_heads, half = keys.shape[1], states.shape[-1] // 2
    turned, own_values = states[:, :-num_kv_heads], states[:, -num_kv_heads:]
    rotated = torch.addcmul(turned * cos[:, None], turned.roll(half, dims=-1), sin[:, None])
    keys.index_copy_(0, rows, rotated[:, -num_kv_heads:])
    values.index_copy_(0, rows, own_values)
    return rotated[:, :-num_kv_heads]


def _activate(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return silu(gate) * up


TORCH: Final = Kernels(rotate=_rotate, activate=_activate)


def choose_kernels(like: Tensor, *, num_heads: int, num_kv_heads: int, head_dim: int) -> Kernels:
    """Return the kernels for a model with the dtype and on the device of ``like``: Triton's, or PyTorch's."""
    if not like.is_cuda or find_spec("triton") is None:
        return TORCH
    from stepscope.engine.inference import triton_kernels  # noqa: PLC0415 - needs Triton

    found = Kernels(rotate=triton_kernels.rotate, activate=triton_kernels.activate)
    try:
        sizes = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
        differing = compare_kernels(found, dtype=like.dtype, device=like.device, **sizes)
    except Exception as error:  # Triton raises many types of exception, such as without a C compiler
        differing = {"every step": first_line(error)}
    if differing:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in differing.items())
        warnings.warn(f"streaming without Triton's kernels, and slower: {reasons}", RuntimeWarning, stacklevel=2)
        return TORCH
    return found


def compare_kernels(
    kernels: Kernels,
    *,
    dtype: torch.dtype,
    device: torch.device,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    num_tokens: int = 5,
) -> dict[str, str]:
    """Return how the results of kernels differ from PyTorch's, by name; nothing if none does."""
    random = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random).to(device, dtype)

    states, angles = draw(num_tokens, num_heads + 2 * num_kv_heads, head_dim), draw(num_tokens, head_dim // 2).float()
    cos, sin = (torch.cat(pair, dim=-1).to(dtype) for pair in ([angles.cos()] * 2, [-angles.sin(), angles.sin()]))
    rows = torch.randperm(2 * num_tokens, generator=random)[:num_tokens].to(device)
    cached = draw(2, 2 * num_tokens, num_kv_heads, head_dim)
    gate_up = draw(num_tokens, 2 * (8 * head_dim + 8))  # no multiple of a block
    found, wanted = (_run(own, states, (cos, sin), rows, cached, gate_up) for own in (kernels, TORCH))
    return {
        name: f"differs by {difference:.1e}"
        for name, result in found.items()
        if not (difference := _difference(result, wanted[name])) <= TOLERANCES[dtype]
    }


def _run(
    kernels: Kernels, states: Tensor, rotation: tuple[Tensor, Tensor], rows: Tensor, cached: Tensor, gate_up: Tensor
) -> dict[str, Tensor]:
    keys, values = cached.clone()
    queries = kernels.rotate(states.clone(), *rotation, rows, keys, values)
    return {"queries": queries, "keys": keys, "values": values, "SiLU times up": kernels.activate(gate_up)}


def _difference(result: Tensor, wanted: Tensor) -> float:
    """Return the largest difference as a share of a wanted number, at least of 1; nan if there is one."""
    exact = wanted.float()
    return float(((result.float() - exact).abs() / exact.abs().clamp(min=1.0)).max())
