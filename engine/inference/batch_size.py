"""The number of videos that fit one forward pass, from the memory that is free."""

from typing import Final

import torch

from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.memory import free_memory
from stepscope.engine.model.vision_language import VisionLanguageModel

MAX_ON_CPU: Final = 16
MAX_ON_GPU: Final = 32
MEMORY_SHARE: Final = 0.5
"""Share of the free memory that the streams may take; the rest is for the passes themselves and for other programs."""
QUEUED_BYTES: Final = 64 * 2**20
"""Memory of one video outside the model: decoder, decoded pictures and features that wait."""


def choose_batch_size(model: VisionLanguageModel, config: StreamConfig, *, num_sharing: int = 1) -> int:
    """Return the number of videos to stream in one pass: at least 1, at most 16 on a CPU and 32 on a GPU.

    Example: with 24 GB free, two processes and 0.8 GB per context, each takes 24 / 2 / 2 / 0.87 = 6 videos.

    Args:
        model: The loaded model.
        config: Stream settings; each video needs a context of ``max_seq_len`` tokens.
        num_sharing: Processes that share the memory.
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
