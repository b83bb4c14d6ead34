"""Both kernels in Triton; ``engine.inference.kernels`` has their definition. They compute in float32 and round once.

Triton compiles the functions with ``jit``, which cannot have other annotations.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

_HEADS: Final = 16
"""Heads of one program."""
_COLUMNS: Final = 1024
"""Columns of one program."""


def rotate(states: Tensor, cos: Tensor, sin: Tensor, rows: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Rotate the queries in place, and write keys and values to the cache."""
    num_tokens, num_states, width = states.shape
    num_kv_heads = keys.shape[1]
    assert all(tensor.is_contiguous() for tensor in (states, cos, sin, rows, keys, values)), "strides are not passed"
    grid = (num_tokens, triton.cdiv(num_states, _HEADS))
    half = width // 2
    sizes = {"heads": num_states - 2 * num_kv_heads, "kv_heads": num_kv_heads, "half": half}
    blocks = {"HEADS": _HEADS, "HALF": triton.next_power_of_2(half)}
    _rotate[grid](states, cos, sin, rows, keys, values, **sizes, **blocks)
    return states[:, : -2 * num_kv_heads]


@triton.jit
def _rotate(states, cos, sin, rows, keys, values, heads, kv_heads, half, HEADS: tl.constexpr, HALF: tl.constexpr):  # noqa: N803
    # one program takes HEADS heads of a token; int64, as a cache has more than 2**31 numbers
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    column = tl.arange(0, HALF)[None, :]
    is_inside = (head < heads + 2 * kv_heads) & (column < half)
    first = states + (token * (heads + 2 * kv_heads) + head) * 2 * half + column
    a = tl.load(first, mask=is_inside, other=0.0).to(tl.float32)
    b = tl.load(first + half, mask=is_inside, other=0.0).to(tl.float32)
    angle, has_angle = token * 2 * half + column, column < half
    cos_a = tl.load(cos + angle, mask=has_angle, other=0.0).to(tl.float32)
    cos_b = tl.load(cos + angle + half, mask=has_angle, other=0.0).to(tl.float32)
    sin_a = tl.load(sin + angle, mask=has_angle, other=0.0).to(tl.float32)
    sin_b = tl.load(sin + angle + half, mask=has_angle, other=0.0).to(tl.float32)
    rotated_a, rotated_b = a * cos_a + b * sin_a, b * cos_b + a * sin_b
    is_query = is_inside & (head < heads)
    tl.store(first, rotated_a, mask=is_query)
    tl.store(first + half, rotated_b, mask=is_query)
    row = tl.load(rows + token)
    key = keys + (row * kv_heads + head - heads) * 2 * half + column
    is_key = is_inside & (head >= heads) & (head < heads + kv_heads)
    tl.store(key, rotated_a, mask=is_key)
    tl.store(key + half, rotated_b, mask=is_key)
    value = values + (row * kv_heads + head - heads - kv_heads) * 2 * half + column
    is_value = is_inside & (head >= heads + kv_heads)
    tl.store(value, a, mask=is_value)
    tl.store(value + half, b, mask=is_value)


def activate(gate_up: Tensor) -> Tensor:
    """Return SiLU of the first half of the columns times the second half."""
    assert gate_up.is_contiguous(), "strides are not passed"
    num_tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
    product = torch.empty(num_tokens, width, dtype=gate_up.dtype, device=gate_up.device)
    _activate[num_tokens, triton.cdiv(width, _COLUMNS)](gate_up, product, width, COLUMNS=_COLUMNS)
    return product


@triton.jit
def _activate(gate_up, product, width, COLUMNS: tl.constexpr):  # noqa: N803
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    gate = tl.load(gate_up + token * 2 * width + column, mask=column < width, other=0.0).to(tl.float32)
    up = tl.load(gate_up + token * 2 * width + width + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(product + token * width + column, gate * tl.sigmoid(gate) * up, mask=column < width)
