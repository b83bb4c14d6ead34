"""Speed of a shape: a video alone, many at once, and live, with and without CUDA graphs."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from benchmarks.gpu.settings import Figure, Figures, Settings
from benchmarks.random_model import RandomWorkload, build_random_workload
from stepscope.engine.bench.modes import BenchRow, Mode, measure
from stepscope.engine.inference.cuda_graphs import describe_graphs
from stepscope.engine.inference.memory import peak_memory_mb
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.streamer import Streamer

_GOALS: Final = {
    "Qwen2.5-VL-3B": {"alone": "at most 7.5 s"},
    "SmolVLM2-2.2B": {
        "alone": "at most 3.5 s",
        "live": "at most 3 ms",
        "decision": "at most 30 ms",
        "at once": "at least 1,500 frames/s",
    },
}


def run(settings: Settings, *, shape: str, num_videos: int) -> Figures:
    """Yield the speeds of a shape, the most important first; of many videos at once if ``num_videos`` is above 1."""
    num_frames, num_videos = (12, min(num_videos, 4)) if settings.is_tiny else (1000, num_videos)
    checkpoint = settings.load(shape)
    workload = build_random_workload(checkpoint, num_videos=num_videos, num_frames=num_frames)
    goals = {} if settings.is_tiny else _GOALS.get(shape, {})
    kinds = (True, False) if checkpoint.graphs is not None else (False,)
    for graphs in kinds:
        suffix = "" if graphs or len(kinds) == 1 else ", without graphs"
        row, memory = _measure(workload, graphs=graphs)
        yield Figure(
            name=f"{num_frames} frames alone{suffix}",
            value=num_frames / row.frames_per_s,
            unit="s",
            goal=goals.get("alone", ""),
            note=f"{row.frames_per_s:,.0f} frames/s, {memory}",
        )
        row, memory = _measure(workload, graphs=graphs, is_live=True)
        yield Figure(
            name=f"live, 95 % of the passes within{suffix}",
            value=row.step_p95_ms or 0.0,
            unit="ms",
            goal=goals.get("live", ""),
            note=f"median {row.step_p50_ms or 0.0:.2f} ms, {memory}",
        )
        first_ms, decided_ms = _time_first_tokens(workload, graphs=graphs)
        yield _summarize(f"frame to first token{suffix}", first_ms)
        yield _summarize(f"decision to first token{suffix}", decided_ms, goal=goals.get("decision", ""))
    for graphs in kinds if num_videos > 1 else ():
        row, memory = _measure(workload, graphs=graphs, rows=num_videos)
        yield Figure(
            name=f"{num_videos} videos at once{'' if graphs or len(kinds) == 1 else ', without graphs'}",
            value=row.frames_per_s,
            unit="frames/s",
            goal=goals.get("at once", ""),
            note=memory,
        )
    if checkpoint.graphs is not None:
        yield Figure(name="graphs", value=describe_graphs(checkpoint, workload.config))


def _measure(workload: RandomWorkload, *, graphs: bool, rows: int = 1, is_live: bool = False) -> tuple[BenchRow, str]:
    """Return the row of a mode after a warm-up, and its peak memory as text.

    Many videos warm up in a first round, and so do shapes that are rare enough to be captured then.
    """
    device = workload.checkpoint.model.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    config = replace(workload.config, lookahead=1, prefill_frames=1) if is_live else workload.config
    mode = Mode(name="", config=config, rows=rows, graphs=graphs)
    (row,) = measure(workload.checkpoint, workload.videos[:rows], [mode], repeats=2 if graphs or rows > 1 else 1)
    return row, f"{peak_memory_mb(device):,.0f} MiB"


def _time_first_tokens(workload: RandomWorkload, *, graphs: bool) -> tuple[list[float], list[float]]:
    """Return, for each response of a live video, the milliseconds from its frame, and from its decision."""
    config = replace(workload.config, lookahead=1, prefill_frames=1)
    checkpoint = workload.checkpoint if graphs else replace(workload.checkpoint, graphs=None)
    arrived_s, began_s = dict[int, float](), dict[int, float]()
    request = replace(
        workload.videos[0], features=_note_arrivals(workload.videos[0].features, arrived_s), reports_text=True
    )
    decided_ms: list[float] = []
    for event in Streamer(checkpoint, config).run_many([request], max_batch_size=1):
        if event.text_progress is not None:
            began_s.setdefault(event.text_progress.frame_index, time.perf_counter())
        if event.output is not None and event.output.first_token_ms is not None:
            decided_ms.append(event.output.first_token_ms)
    return [(now - arrived_s[frame]) * 1000 for frame, now in began_s.items()], decided_ms


def _note_arrivals(frames: Iterable[FrameFeatures], arrived_s: dict[int, float]) -> Iterator[FrameFeatures]:
    for frame in frames:
        arrived_s[frame.index] = time.perf_counter()
        yield frame


def _summarize(name: str, times_ms: list[float], *, goal: str = "") -> Figure:
    if not times_ms:
        return Figure(name=name, value="no response")
    median, p95 = np.percentile(times_ms, (50, 95)).tolist()
    note = f"95 % within {p95:.2f} ms, {len(times_ms)} texts"
    return Figure(name=name, value=median, unit="ms", goal=goal, note=note)
