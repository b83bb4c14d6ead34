"""Profile of one live pass: kernels, launches and copies."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.settings import Figure, Figures, Settings
from benchmarks.random_model import build_random_workload
from stepscope.engine.config import StreamConfig
from stepscope.engine.streamer import Streamer

_WARM_FRAMES: Final = 40
"""Frames before the pass: then its shape was captured and checked."""
_NUM_ROWS: Final = 12


def run(settings: Settings) -> Figures:
    """Yield the counts and the longest kernels of a pass with one silent frame, with graphs and without."""
    checkpoint = settings.load("SmolVLM2-2.2B")
    video = build_random_workload(checkpoint, num_videos=1, num_frames=_WARM_FRAMES + 1).videos[0]
    config = StreamConfig(speak_threshold=1, update_threshold=1, lookahead=1, prefill_frames=1)
    for graphs in (True, False) if checkpoint.graphs is not None else (False,):
        prefix = "with graphs: " if graphs else ""
        streamer = Streamer(checkpoint if graphs else replace(checkpoint, graphs=None), config)
        outputs = streamer.run(video.features, video.task)
        list(islice(outputs, _WARM_FRAMES))
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * settings.is_gpu
        with profile(activities=activities) as recorded:
            next(outputs)
        yield from _tabulate(prefix, recorded.key_averages(), is_gpu=settings.is_gpu)


def _tabulate(prefix: str, events: Sequence[Any], *, is_gpu: bool) -> Figures:
    """Yield the sums and the longest rows of a profile; its times are in microseconds."""
    kernels = [event for event in events if event.device_type.name == "CUDA"]
    copies = [event for event in events if event.key.startswith(("Memcpy", "aten::copy_" if not is_gpu else "Memcpy"))]
    launches = [event for event in events if "LaunchKernel" in event.key or "GraphLaunch" in event.key]
    yield Figure(name=f"{prefix}CPU time", value=sum(event.self_cpu_time_total for event in events) / 1000, unit="ms")
    if is_gpu:
        yield Figure(name=f"{prefix}GPU time", value=sum(e.self_device_time_total for e in kernels) / 1000, unit="ms")
        yield Figure(name=f"{prefix}kernels", value=float(sum(event.count for event in kernels)))
        yield Figure(name=f"{prefix}launches", value=float(sum(event.count for event in launches)))
    yield Figure(name=f"{prefix}copies", value=float(sum(event.count for event in copies)))
    shown = kernels if is_gpu else list(events)
    time_us = "self_device_time_total" if is_gpu else "self_cpu_time_total"
    for event in sorted(shown, key=lambda event: getattr(event, time_us), reverse=True)[:_NUM_ROWS]:
        time_ms = getattr(event, time_us) / 1000
        yield Figure(name=f"{prefix}{event.key[:80]}", value=time_ms, unit="ms", note=f"{event.count} times")
