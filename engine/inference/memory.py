"""Memory of this machine and of this process."""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch


def free_memory() -> int:
    """Return the memory of this machine, or of its container, that is free, in bytes; half of all if unknown."""
    known = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        known.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):  # "max" without a limit
        group = Path("/sys/fs/cgroup")
        known.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return max(0, min(known)) if known else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


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
