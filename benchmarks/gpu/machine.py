"""The machine: card, memory and versions."""

import platform

import torch
import transformers

from benchmarks.gpu.settings import Figure, Figures, Settings


def run(settings: Settings) -> Figures:
    """Yield the card and the versions. Raises ``RuntimeError`` if the device cannot compute."""
    device = torch.device(settings.device)
    torch.ones(2, device=device).sum().item()
    if device.type == "cuda":
        card = torch.cuda.get_device_properties(device)
        yield Figure(name="card", value=card.name, note=f"compute capability {card.major}.{card.minor}")
        yield Figure(name="memory", value=card.total_memory / 2**20, unit="MiB")
        yield Figure(name="CUDA of torch", value=str(torch.version.cuda))
    else:
        yield Figure(name="card", value=f"none: {settings.device}, {torch.get_num_threads()} threads")
    yield Figure(name="torch", value=torch.__version__)
    yield Figure(name="transformers", value=transformers.__version__)
    yield Figure(name="Python", value=platform.python_version())
