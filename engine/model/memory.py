"""The memory that a checkpoint needs, from the headers of its files, against the memory that is free.

transformers reads all weights before it fails, and a system that is out of memory kills a program without a word.
"""

import math
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from stepscope.engine.config import Quantization, StreamConfig
from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.devices import name_dtype
from stepscope.engine.model.files.checkpoint_files import open_tensors, stored_tensors

_OVERHEAD: Final = 1.1
"""Memory of a loaded model and of its passes, as a multiple of its weights."""
_BYTES: Final = {"8bit": 1.0, "4bit": 0.5}
"""Bytes of a quantised value."""
_UNQUANTIZED: Final = ("visual.", "vision", "connector", "projector", "lm_head", "embed_tokens")
"""Parts of the names of tensors that keep their numbers under ``--quantize``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """The number and the dtype of the weights in safetensors files, from their headers."""

    dtype: str
    """The dtype of most values, as safetensors names it: ``BF16``."""
    num_values: int
    num_text_values: int
    """The values that ``--quantize`` makes smaller."""
    token_values: int
    """Values of a token in the KV cache."""

    def needed_bytes(self, dtype: torch.dtype, quantize: Quantization = "none") -> int:
        """Return the memory of the weights, of the passes and of a context of the default length."""
        of_text = self.num_text_values * _BYTES.get(quantize, dtype.itemsize)
        of_weights = (self.num_values - self.num_text_values) * dtype.itemsize + of_text
        return int(of_weights * _OVERHEAD) + StreamConfig().max_seq_len * self.token_values * dtype.itemsize


def read_stored_weights(folders: Iterable[Path]) -> StoredWeights:
    """Read the headers of the ``model*.safetensors`` of folders."""
    kinds, num_text_values, token_values = Counter[str](), 0, 0
    for folder in folders:
        stored = stored_tensors(folder)
        for path in sorted(set(stored.values())):
            with open_tensors(path) as file:
                for name in (name for name, holder in stored.items() if holder == path):
                    tensor = file.get_slice(name)
                    shape = tensor.get_shape()
                    kinds[tensor.get_dtype()] += math.prod(shape)
                    if len(shape) == 2 and not any(part in name for part in _UNQUANTIZED):
                        num_text_values += math.prod(shape)
                        token_values += 2 * shape[0] * name.endswith("k_proj.weight")  # a key and a value
    (dtype, _), *_ = kinds.most_common(1) or [("", 0)]
    return StoredWeights(
        dtype=dtype, num_values=kinds.total(), num_text_values=num_text_values, token_values=token_values
    )


def known_free_memory() -> int | None:
    """Return the memory of this machine, or of its container, that is free, in bytes; None if it is unknown."""
    known = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError, KeyError):  # "max" without a limit
        group = Path("/sys/fs/cgroup")
        used = int((group / "memory.current").read_text())
        of_kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        known.append(int((group / "memory.max").read_text()) - used + int(of_kinds["inactive_file"]))
    return max(0, min(known)) if known else None


def free_memory() -> int:
    """Return the memory of this machine, or of its container, that is free, in bytes; half of all if unknown."""
    known = known_free_memory()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if known is None else known


def check_memory(
    name: str,
    weights: StoredWeights,
    *,
    dtype: torch.dtype,
    device: torch.device,
    quantize: Quantization = "none",
    quantizes: bool = True,
    num_copies: int = 1,
) -> None:
    """Raise ``CheckpointError`` with the cures if the free memory does not hold ``num_copies`` of a checkpoint.

    ``quantizes`` is whether ``--quantize`` can be a cure. Weights reach a GPU by way of the memory of its machine,
    unless they are quantised.
    """
    places = [("", known_free_memory())] if device.type != "cuda" or quantize == "none" else []
    if device.type == "cuda":
        places.append((" of the GPU", torch.cuda.mem_get_info(device)[0]))
    needed = num_copies * weights.needed_bytes(dtype, quantize)
    for place, free in places:
        if free is None or needed <= free:
            continue
        smaller: dict[str, tuple[torch.dtype, Quantization]] = {"--dtype bfloat16": (torch.bfloat16, "none")}
        if quantizes:
            smaller |= {"--quantize 8bit": (dtype, "8bit"), "--quantize 4bit": (dtype, "4bit")}
        sizes = {cure: num_copies * weights.needed_bytes(*values) for cure, values in smaller.items()}
        cures = [f"{cure} ({size / 1e9:.1f} GB)" for cure, size in sizes.items() if size < needed and size <= free]
        copies = f"{num_copies} processes with {name} need" if num_copies > 1 else f"{name} needs"
        choices = ", ".join([*cures, "a smaller model"]) + " or fewer processes" * (num_copies > 1)
        raise CheckpointError(
            f"{copies} about {needed / 1e9:.1f} GB of memory in {name_dtype(dtype)}, and {free / 1e9:.1f} GB{place} "
            f"are free; choose {choices}, or end other programs"
        )
