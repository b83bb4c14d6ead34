"""Loads a checkpoint for streaming: weights, prompt, heads, oneDNN on a CPU, and the pool of CUDA graphs on a GPU."""

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from stepscope.engine.config import GraphSetting, Quantization
from stepscope.engine.inference.cuda_graphs import create_graph_pool
from stepscope.engine.model.checkpoint import Checkpoint, load_checkpoint
from stepscope.engine.model.devices import use_onednn


def load_model(
    path_or_id: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    heads: str | Path | None = None,
    allow_untrained_heads: bool = False,
    graphs: GraphSetting = "auto",
    quantize: Quantization = "none",
    frame_pixels: int | None = None,
) -> Checkpoint:
    """Load a checkpoint from a folder or from the hub.

    Args:
        path_or_id: Folder or hub id of a SmolVLM, such as ``HuggingFaceTB/SmolVLM2-2.2B-Instruct``, of an image-text
            model, such as ``Qwen/Qwen2.5-VL-3B-Instruct``, or of an adapter of VideoLLM-online or ProAssist.
        device: ``auto`` (cuda, mps, cpu) or a torch device.
        dtype: ``auto``, ``float32``, ``float16`` or ``bfloat16``; ``auto`` is bfloat16 on a GPU, and on a CPU for
            weights that are stored in it. The heads stay in float32.
        heads: Heads file, if not ``heads.safetensors`` in the folder.
        allow_untrained_heads: Use random heads if there is no heads file.
        graphs: Whether passes are captured as CUDA graphs: ``on``, ``off``, or ``auto`` where possible. The results
            are the same.
        quantize: ``8bit`` or ``4bit`` weights of the text model of a Llama assistant or of an image-text model, by
            bitsandbytes; ``none`` keeps ``dtype``.
        frame_pixels: Most pixels of a frame, for a model that takes images of any size.

    Raises:
        CheckpointError: A file that is missing, damaged or unsafe, a tensor of a wrong shape, or too little free
            memory.
        ValueError: A device or dtype that is not available, or ``graphs="on"`` where graphs are not available.
    """
    checkpoint = load_checkpoint(
        path_or_id,
        device=device,
        dtype=dtype,
        heads=heads,
        allow_untrained_heads=allow_untrained_heads,
        quantize=quantize,
        frame_pixels=frame_pixels,
    )
    use_onednn(checkpoint.model)
    return replace(checkpoint, graphs=create_graph_pool(checkpoint.model, graphs))


def load_as(options: Any, *, device: str, **changes: Any) -> Checkpoint:
    """Load ``options.checkpoint``; each other argument of ``load_model`` is a field of that name, if there is one."""
    named = {name: getattr(options, name) for name in signature(load_model).parameters if hasattr(options, name)}
    return load_model(options.checkpoint, **{**named, "device": device, **changes})
