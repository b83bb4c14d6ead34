"""Memory of this process and of its device, and the number of videos that fit into it."""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.model.memory import free_memory
from stepscope.engine.model.vision_language import VisionLanguageModel


def used_memory_mb(device: torch.device) -> float:
    """Return the memory that this process holds now in MiB: of the GPU if it is used, else its resident set."""
    if device.type == "cuda":
        return torch.cuda.memory_reserved(device) / 2**20
    with suppress(OSError, ValueError):
        num_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return num_pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return peak_memory_mb(device)  # systems without /proc, such as macOS


def device_memory_mb(device: torch.device) -> float | None:
    """Return the memory of a GPU in MiB; None for other devices."""
    if device.type != "cuda":
        return None
    return torch.cuda.get_device_properties(device).total_memory / 2**20


def peak_memory_mb(device: torch.device) -> float:
    """Return the peak memory so far in MiB: of the GPU if it is used, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


MAX_ON_CPU: Final = 16
MAX_ON_GPU: Final = 32
MEMORY_SHARE: Final = 0.5
"""Share of the free memory that the streams may take; the rest is for the passes themselves and for other programs."""
QUEUED_BYTES: Final = 64 * 2**20
"""Memory of one video outside the model: decoder, decoded pictures and features that wait."""


def choose_batch_size(model: VisionLanguageModel, config: StreamConfig, *, num_sharing: int = 1) -> int:
    """Return the number of videos to stream in one pass: at least 1, at most 16 on a CPU and 32 on a GPU.

    Example: with 24 GB free, two processes and 0.8 GB per context, each takes 24 / 2 / 2 / 0.87 = 6 videos. Each video
    needs a context of ``max_seq_len`` tokens; ``num_sharing`` processes share the memory.
    """
    is_gpu = model.device.type == "cuda"
    free = torch.cuda.mem_get_info(model.device)[0] if is_gpu else free_memory()
    of_video = config.max_seq_len * token_bytes(model) + QUEUED_BYTES
    return max(1, min(MAX_ON_GPU if is_gpu else MAX_ON_CPU, int(MEMORY_SHARE * free / num_sharing / of_video)))


def token_bytes(model: VisionLanguageModel) -> int:
    """Return the memory of one token in the KV cache, in bytes."""
    text = model.text_model
    sizes = [layer.self_attn.config.num_key_value_heads * layer.self_attn.head_dim for layer in text.layers]
    num_bytes: int = 2 * sum(sizes) * model.dtype.itemsize
    return num_bytes
