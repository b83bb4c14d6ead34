"""Speed of a shape: a video alone, many at once, live, for hours, as before its layers were joined, and in training.

One frame in twenty has a question, whose answer takes 50 tokens; all other frames are silent.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu.settings import Figure, Figures, Settings
from benchmarks.random_model import SHAPES, RandomWorkload, build_asked_workload, build_random_workload
from stepscope.engine.bench.modes import BenchRow, Mode, measure
from stepscope.engine.config import StreamConfig
from stepscope.engine.inference.cuda_graphs import CudaGraphPool, describe_graphs
from stepscope.engine.inference.kernels import TORCH, Kernels, choose_kernels, compare_kernels
from stepscope.engine.inference.memory import peak_memory_mb, used_memory_mb
from stepscope.engine.inference.merged import MergedLayers
from stepscope.engine.model.attention import forward_layers
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import Step
from stepscope.engine.stream import Streamer, StreamRequest
from stepscope.engine.training.config import TrainConfig
from stepscope.engine.training.dataset import EncodedClip, batches
from stepscope.engine.training.objective import StreamObjective
from stepscope.engine.training.sequences import TrainingClip, TrainingTurn
from stepscope.engine.training.trainer import Trainer, predict

_GOALS: Final = {
    "SmolVLM2-256M": {"alone": "above the 500M shape"},
    "SmolVLM2-500M": {"alone": "at least 700 frames/s"},
    "SmolVLM2-2.2B": {
        "alone": "at least 286 frames/s",
        "live": "at most 3 ms",
        "decision": "at most 30 ms",
        "at once": "at least 1,500 frames/s",
    },
    "Llama-3-8B-10": {"alone": "at least 100 frames/s"},
    "Qwen2.5-VL-3B": {
        "alone": "at least 134 frames/s",
        "live": "at most 12 ms",
        "at once": "at least 400 frames/s",
    },
}


_FRAMES: Final = {"at once": 400, "live": 200, "before": 100}
"""Frames of each video."""


def run(
    settings: Settings, *, shape: str, num_videos: int = 1, num_frames: int = 1000, compares: bool = False
) -> Figures:
    """Yield the speeds of a shape, the most important first; of many videos at once if ``num_videos`` is above 1.

    If it ``compares``, also those of its layers before each step.
    """
    lengths = {name: min(length, num_frames) for name, length in _FRAMES.items()} | {"alone": num_frames}
    if settings.is_tiny:
        lengths, num_videos = dict.fromkeys(lengths, 12), min(num_videos, 4)
    checkpoint = settings.load(shape)
    workload = build_asked_workload(checkpoint, num_videos=num_videos, num_frames=lengths["alone"])
    goals = {} if settings.is_tiny else _GOALS.get(shape, {})
    has_graphs = checkpoint.graphs is not None
    row, memory = _measure(workload, lengths["alone"], graphs=has_graphs)
    yield Figure(
        name=f"{lengths['alone']} frames alone",
        value=row.frames_per_s,
        unit="frames/s",
        goal=goals.get("alone", ""),
        note=f"{lengths['alone'] / row.frames_per_s:.1f} s, {row.passes:,} passes, {memory}",
    )
    row, memory = _measure(workload, lengths["live"], graphs=has_graphs, is_live=True)
    yield Figure(
        name="live, 95 % of the passes within",
        value=row.step_p95_ms or 0.0,
        unit="ms",
        goal=goals.get("live", ""),
        note=f"median {row.step_p50_ms or 0.0:.2f} ms, {memory}",
    )
    first_ms, decided_ms = _time_first_tokens(workload, lengths["live"])
    yield _summarize("frame to first token", first_ms)
    yield _summarize("decision to first token", decided_ms, goal=goals.get("decision", ""))
    if num_videos > 1:
        row, memory = _measure(workload, lengths["at once"], graphs=has_graphs, rows=num_videos)
        yield Figure(
            name=f"{num_videos} videos of {lengths['at once']} frames at once",
            value=row.frames_per_s,
            unit="frames/s",
            goal=goals.get("at once", ""),
            note=f"{row.passes:,} passes, {memory}",
        )
    if has_graphs:
        yield Figure(name="graphs", value=describe_graphs(checkpoint, workload.config))
        for name, variant in _list_variants(checkpoint) if compares else ():
            row, memory = _measure(
                replace(workload, checkpoint=variant), lengths["before"], graphs=variant.graphs is not None
            )
            yield Figure(
                name=f"{lengths['before']} frames alone, {name}",
                value=row.frames_per_s,
                unit="frames/s",
                note=f"{row.passes:,} passes, {memory}",
            )


def _list_variants(checkpoint: Checkpoint) -> Iterator[tuple[str, Checkpoint]]:
    """Yield a checkpoint with captured passes as they are, and as they were before each step; last without any."""
    layers = checkpoint.graphs.layers if checkpoint.graphs is not None else None
    plain = partial(forward_layers, checkpoint.model.text_model)
    variants: list[tuple[str, Any]] = [("with the layers of transformers", plain)]
    if isinstance(layers, MergedLayers):
        joined = copy(layers)
        joined.kernels = TORCH
        variants += [("with joined products", joined), ("with joined products and kernels of Triton", layers)]
    for name, own in variants:
        graphs = CudaGraphPool(checkpoint.model, layers=own)
        yield name, replace(checkpoint, graphs=graphs)
    yield "without graphs", replace(checkpoint, graphs=None)


def _measure(
    workload: RandomWorkload, num_frames: int, *, graphs: bool, rows: int = 1, is_live: bool = False
) -> tuple[BenchRow, str]:
    """Return the row of a mode after a warm-up, and its peak memory as text.

    With graphs, a first round captures the shapes that the warm-up had too rarely or, with many videos, not at all.
    """
    device = workload.checkpoint.model.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    config = replace(workload.config, lookahead=1, prefill_frames=1) if is_live else workload.config
    mode = Mode(name="", config=config, rows=rows, graphs=graphs)
    videos = [_cut(video, num_frames) for video in workload.videos[:rows]]
    (row,) = measure(workload.checkpoint, videos, [mode], repeats=2 if graphs else 1)
    return row, f"{peak_memory_mb(device):,.0f} MiB"


def _cut(video: StreamRequest, num_frames: int) -> StreamRequest:
    return replace(video, features=tuple(islice(video.features, num_frames)))


def _time_first_tokens(workload: RandomWorkload, num_frames: int) -> tuple[list[float], list[float]]:
    """Return, for each response of a live video, the milliseconds from its frame, and from its decision."""
    config = replace(workload.config, lookahead=1, prefill_frames=1)
    video = _cut(workload.videos[0], num_frames)
    arrived_s, began_s = dict[int, float](), dict[int, float]()
    request = replace(video, features=_note_arrivals(video.features, arrived_s), reports_text=True)
    decided_ms: list[float] = []
    for event in Streamer(workload.checkpoint, config).run_many([request], max_batch_size=1):
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


_HOURS: Final = 4
_FRAMES_PER_HOUR: Final = 7200


def stream_for_hours(settings: Settings) -> Figures:
    """Yield the memory of the process and its device after each hour of a stream at 2 frames/s, which is to be flat.

    One frame in 200 has a question.
    """
    per_hour = 30 if settings.is_tiny else _FRAMES_PER_HOUR
    checkpoint = settings.load("SmolVLM2-256M")
    workload = build_asked_workload(checkpoint, num_videos=1, num_frames=_HOURS * per_hour, every=200)
    began_s = time.perf_counter()
    for output in Streamer(checkpoint, workload.config).run(workload.videos[0].features, workload.videos[0].task):
        hour, rest = divmod(output.frame_index + 1, per_hour)
        if not rest:
            yield Figure(
                name=f"memory after {hour} h",
                value=used_memory_mb(torch.device("cpu")),
                unit="MiB",
                goal="as after 1 h" if hour > 1 else "",
                note=f"{used_memory_mb(checkpoint.model.device):,.0f} MiB of the device, "
                f"{output.frame_index / (time.perf_counter() - began_s):,.0f} frames/s",
            )


def compare_kernels_of_triton(settings: Settings) -> Figures:
    """Yield whether Triton's kernels give PyTorch's results for each shape and dtype, and the times of both.

    Raises ``AssertionError`` at the end if they differ.
    """
    settings.need_gpu()
    device, wrong = torch.device(settings.device), list[str]()
    for shape in (name for name in SHAPES if not name.startswith("tiny")):
        sizes = SHAPES[shape]
        heads = {"num_heads": sizes["num_attention_heads"], "num_kv_heads": sizes["num_key_value_heads"]}
        heads["head_dim"] = sizes["head_dim"]
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            chosen = choose_kernels(torch.zeros(0, dtype=dtype, device=device), **heads)
            differing = {"every step": "PyTorch's were chosen"} if chosen is TORCH else {}
            for num_tokens in (1, 64, 513):
                differing |= compare_kernels(chosen, dtype=dtype, device=device, num_tokens=num_tokens, **heads)
            name = f"{shape}, {str(dtype).removeprefix('torch.')}"
            wrong += [name] if differing else []
            yield Figure(name=name, value="DIFFERS" if differing else "equal", note=str(differing or ""))
        for num_tokens in (1, 512):
            own, torch_us = (_time_kernels(each, num_tokens, sizes, device) for each in (chosen, TORCH))
            yield Figure(name=f"{shape}, {num_tokens} tokens", value=own, unit="us", note=f"PyTorch {torch_us:.0f} us")
    if wrong:
        raise AssertionError(f"other results: {'; '.join(wrong)}")


def _time_kernels(kernels: Kernels, num_tokens: int, sizes: Mapping[str, int], device: torch.device) -> float:
    """Return the microseconds on the device of both steps of a layer in bfloat16, captured as a graph."""
    heads, kv_heads, width = (sizes[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    draw = partial(torch.randn, device=device, dtype=torch.bfloat16)
    states, rotation = draw(num_tokens, heads + 2 * kv_heads, width), (draw(num_tokens, width), draw(num_tokens, width))
    cached, rows = draw(2, num_tokens, kv_heads, width), torch.arange(num_tokens, device=device)
    gate_up, graph = draw(num_tokens, 2 * sizes["intermediate_size"]), torch.cuda.CUDAGraph()

    def run() -> None:
        kernels.rotate(states, *rotation, rows, *cached)
        kernels.activate(gate_up)

    run()
    with torch.cuda.graph(graph):
        for _ in range(_REPEATS):
            run()
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    began.record()
    graph.replay()
    ended.record()
    ended.synchronize()
    return float(1000 * began.elapsed_time(ended) / _REPEATS)


_REPEATS: Final = 20
_WARM_FRAMES: Final = 40
"""Frames before the pass: then its shape was captured and checked."""
_NUM_ROWS: Final = 12


def profile_pass(settings: Settings, *, shape: str) -> Figures:
    """Yield the counts and the longest kernels of a pass with one silent frame, with graphs and without."""
    checkpoint = settings.load(shape)
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
        num_layers = checkpoint.model.num_layers
        yield from _tabulate(prefix, recorded.key_averages(), is_gpu=settings.is_gpu, num_layers=num_layers)


def _tabulate(prefix: str, events: Sequence[Any], *, is_gpu: bool, num_layers: int) -> Figures:
    """Yield the sums and the longest rows of a profile; its times are in microseconds."""
    kernels = [event for event in events if event.device_type.name == "CUDA"]
    copies = [event for event in events if event.key.startswith(("Memcpy", "aten::copy_" if not is_gpu else "Memcpy"))]
    launches = [event for event in events if "LaunchKernel" in event.key or "GraphLaunch" in event.key]
    yield Figure(name=f"{prefix}CPU time", value=sum(event.self_cpu_time_total for event in events) / 1000, unit="ms")
    if is_gpu:
        yield Figure(name=f"{prefix}GPU time", value=sum(e.self_device_time_total for e in kernels) / 1000, unit="ms")
        num_kernels = sum(event.count for event in kernels)
        note = f"{num_kernels / num_layers:.1f} for each of {num_layers} layers, of which at most 10 are its own"
        yield Figure(name=f"{prefix}kernels", value=float(num_kernels), note=note)
        yield Figure(name=f"{prefix}launches", value=float(sum(event.count for event in launches)))
    yield Figure(name=f"{prefix}copies", value=float(sum(event.count for event in copies)))
    shown = kernels if is_gpu else list(events)
    time_us = "self_device_time_total" if is_gpu else "self_cpu_time_total"
    for event in sorted(shown, key=lambda event: getattr(event, time_us), reverse=True)[:_NUM_ROWS]:
        time_ms = getattr(event, time_us) / 1000
        yield Figure(name=f"{prefix}{event.key[:80]}", value=time_ms, unit="ms", note=f"{event.count} times")


_BATCH_SIZE = 4
_STEPS = tuple(Step(id=f"S{number}", name=f"attach part {number}") for number in range(1, 5))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RandomFrames:
    features: Tensor

    def read(self, first: int = 0, stop: int | None = None) -> Tensor:
        return self.features[first:stop]


def time_training(settings: Settings) -> Figures:
    """Yield the time and the peak memory of a step."""
    num_frames, num_steps = (40, 4) if settings.is_tiny else (400, 12)
    checkpoint = settings.load("SmolVLM2-500M", dtype="float32")
    model = checkpoint.smolvlm
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "vision_model" not in name
    turns = tuple(
        TrainingTurn(frame_index=frame, role="assistant", text=f"Attach part {frame}, then press it down.")
        for frame in range(5, num_frames, 10)
    )
    clip = TrainingClip(goal="build it", steps=_STEPS, turns=turns, num_frames=num_frames)
    shape = (num_frames, model.tokens_per_frame, model.feature_dim)
    clips = [
        EncodedClip(name=f"clip {seed}", clip=clip, source=_RandomFrames(features=_draw(shape, seed).to(model.device)))
        for seed in range(_BATCH_SIZE)
    ]
    config = TrainConfig(num_steps=num_steps, learning_rate=1e-5)
    trainer = Trainer(StreamObjective(model, config))
    drawn = batches(clips, checkpoint, batch_size=_BATCH_SIZE, seed=0, mid_start_rate=0.0)
    sequences, _ = next(drawn)
    num_tokens = sum(len(sequence.ids) for sequence in sequences)
    found = predict(trainer, drawn, disk_bytes=0)
    note = f"{num_tokens / found.step_s:,.0f} tokens/s, {found.peak_memory_mb:,.0f} MiB"
    name = f"step of {_BATCH_SIZE} contexts, {num_tokens} tokens"
    yield Figure(name=name, value=1000 * found.step_s, unit="ms", note=note)


def _draw(shape: tuple[int, int, int], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
