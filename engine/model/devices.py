"""The device and the dtype of a model, where a user may leave both to the program."""

import torch

from stepscope.engine.errors import first_line


def resolve_device(device: str = "auto") -> torch.device:
    """Resolve ``auto`` to the first available of cuda, mps and cpu. Raises ``ValueError`` for an absent device."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        target = torch.device(device)
        torch.empty(0, device=target)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} is not available: {first_line(error)}") from error
    return target


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Resolve ``auto`` for a device: bfloat16 on a GPU that supports it, else float16; float32 on a CPU."""
    names = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    if dtype in names:
        return names[dtype]
    if dtype != "auto":
        raise ValueError(f"dtype must be auto, {', '.join(names)}; got {dtype!r}")
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.float16 if device.type == "mps" else torch.float32
