"""Measures the constants of streaming: videos whole and in part, alone and together, and the fit of their costs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

from engine.bench.random_model import build_random_workload, random_checkpoint
from engine.config import StreamConfig
from engine.control.requests import PassCounts
from engine.inference.batch_size import QUEUED_BYTES, token_bytes
from engine.model.checkpoint import Checkpoint
from engine.records import FrameOutput
from engine.stream import StreamRequest
from engine.streamer import Streamer
from eval.data.samples import Sample
from eval.planning.constants import ModelConstants
from eval.planning.fitting import TimedWork, fit_quantity, fit_times, round_digits
from eval.planning.predict import StreamWork, count_work, time_work
from eval.planning.workload import VideoLoad, measure_load, read_load
from eval.runs.worker_messages import HEAD_START_FRAMES

_PARTS: Final = (1.0, 0.5, 0.25)
"""Parts of each video that are streamed alone."""
_REPEATS: Final = 2
_RANDOM_VIDEOS: Final = 4
_RANDOM_FRAMES: Final = 60
"""Frames of a random video."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """Some videos that were streamed: their outputs, the counts of each, and the work and time of all."""

    outputs: Mapping[str, Sequence[FrameOutput]]
    passes: Mapping[str, int]
    tokens: Mapping[str, int]
    timed: TimedWork


def measure_shape(arch: str, bundled: Checkpoint) -> ModelConstants:
    """Return the constants of a random model of a published shape; its vision tower is not measured.

    Texts of random weights are never drafted right, so a trained model takes fewer passes.
    """
    clock = make_clock(bundled.model.device.type)
    began_s = clock()
    checkpoint = random_checkpoint(arch, bundled)
    load_s = clock() - began_s
    workload = build_random_workload(checkpoint, num_videos=_RANDOM_VIDEOS, num_frames=_RANDOM_FRAMES)
    samples = {
        video.video_id: Sample(
            video_id=video.video_id,
            video_path=None,
            fps=2.0,
            num_frames=_RANDOM_FRAMES,
            goal=video.task.goal,
            steps=tuple(video.task.steps),
            turns=(),
            initial_state={},
        )
        for video in workload.videos
    }
    name = f"random weights, {_RANDOM_VIDEOS} videos of {_RANDOM_FRAMES} frames"
    model = fit_model(checkpoint, workload.config, samples, workload.videos, clock=clock, name=name, has_drafts=False)
    context_mb = workload.config.max_seq_len * token_bytes(checkpoint.model) / 2**20
    return replace(model, load_s=round_digits(load_s), video_mb=round_digits(context_mb + QUEUED_BYTES / 2**20))


def fit_model(
    checkpoint: Checkpoint,
    config: StreamConfig,
    samples: Mapping[str, Sample],
    requests: Sequence[StreamRequest],
    *,
    clock: Callable[[], float],
    name: str,
    has_drafts: bool = True,
) -> ModelConstants:
    """Stream videos alone, in part, after another one and together; return the constants of streaming.

    Without ``has_drafts``, as for random weights, earlier responses save no passes, and no video streams after another.
    """
    stream_videos(checkpoint, config, requests[:1], batch_size=1, clock=clock)  # warm-up
    timed, loads, tokens, contexts = list[TimedWork](), list[VideoLoad](), list[float](), list[float]()
    first_passes, passes = list[float](), list[float]()
    for number, request in enumerate(requests):
        features, earlier = list(request.features), requests[number - 1]
        for part in _PARTS:
            short = replace(request, features=features[: round(part * len(features))])
            streamed = stream_videos(checkpoint, config, [short], batch_size=1, clock=clock)
            outputs = streamed.outputs[request.video_id]
            loads.append(measure_load(samples[request.video_id], outputs))
            first_passes.append(streamed.passes[request.video_id])
            tokens.append(streamed.tokens[request.video_id])
            contexts.append(outputs[-1].cache_tokens)
            timed.append(streamed.timed)
            if not has_drafts:
                passes.append(first_passes[-1])
                continue
            after = replace(short, video_id="after")
            both = _stream_once(checkpoint, config, [earlier, after], batch_size=1, clock=clock)
            passes.append(both.passes["after"])
            timed.append(both.timed)
    for batch_size in sorted({2, 4, len(requests)}):
        timed.append(stream_videos(checkpoint, config, requests, batch_size=batch_size, clock=clock).timed)
    pass_s, row_s, token_s, context_s = fit_times(timed)
    model = checkpoint.model
    return ModelConstants(
        measured=name,
        load_s=0.0,
        encode_s=None,
        pass_s=pass_s,
        row_s=row_s,
        token_s=token_s,
        context_s=context_s,
        first_passes=fit_quantity(loads, first_passes, has_prompt=False),
        passes=fit_quantity(loads, passes, has_prompt=False),
        tokens=fit_quantity(loads, tokens),
        context=fit_quantity(loads, contexts),
        weights_mb=round_digits(weights_mb(checkpoint)),
        video_mb=0.0,
        feature_bytes=2 * model.tokens_per_frame * model.feature_dim,
    )


def stream_videos(
    checkpoint: Checkpoint,
    config: StreamConfig,
    requests: Sequence[StreamRequest],
    *,
    batch_size: int,
    clock: Callable[[], float],
) -> Streamed:
    """Stream videos and count their work; the time is the best of two."""
    found = [_stream_once(checkpoint, config, requests, batch_size=batch_size, clock=clock) for _ in range(_REPEATS)]
    return min(found, key=lambda streamed: streamed.timed.seconds)


def _stream_once(
    checkpoint: Checkpoint,
    config: StreamConfig,
    requests: Sequence[StreamRequest],
    *,
    batch_size: int,
    clock: Callable[[], float],
) -> Streamed:
    streamer = Streamer(checkpoint, config)
    outputs: dict[str, list[FrameOutput]] = {request.video_id: [] for request in requests}
    counts = dict[str, PassCounts]()
    began_s = clock()
    for event in streamer.run_many(_with_head_start(requests, outputs, counts), max_batch_size=batch_size):
        if event.error is not None:
            raise event.error
        if event.output is not None:
            outputs[event.video_id].append(event.output)
        elif event.counts is not None:
            counts[event.video_id] = event.counts
    seconds = clock() - began_s
    contexts = {name: sum(one.cache_tokens for one in of_video) / len(of_video) for name, of_video in outputs.items()}
    work = StreamWork(
        passes=streamer.counts.passes,
        rows=sum(one.passes for one in counts.values()),
        tokens=streamer.counts.tokens,
        context=sum(counts[name].passes * context for name, context in contexts.items()),
    )
    return Streamed(
        outputs=outputs,
        passes={name: one.passes for name, one in counts.items()},
        tokens={name: one.tokens for name, one in counts.items()},
        timed=TimedWork(work=work, seconds=seconds),
    )


def _with_head_start(
    requests: Sequence[StreamRequest], outputs: Mapping[str, Sequence[FrameOutput]], counts: Mapping[str, PassCounts]
) -> Iterator[StreamRequest | None]:
    """Yield the requests as a worker does: None while the first video is in flight and within its head start."""
    first, *others = requests
    yield first
    while first.video_id not in counts and len(outputs[first.video_id]) < HEAD_START_FRAMES:
        yield None
    yield from others


def find_errors(
    checkpoint: Checkpoint,
    config: StreamConfig,
    samples: Sequence[Sample],
    requests: Sequence[StreamRequest],
    model: ModelConstants,
    *,
    clock: Callable[[], float],
) -> dict[str, float]:
    """Return the relative errors of predictions from the references of videos that were not measured."""
    pairs_of = sorted(zip(samples, requests, strict=True), key=lambda pair: -pair[0].num_frames)  # as the scheduler
    samples, requests = [sample for sample, _ in pairs_of], [request for _, request in pairs_of]
    streamed = stream_videos(checkpoint, config, requests, batch_size=len(requests), clock=clock)
    work = count_work([read_load(sample) for sample in samples], model, batch_size=len(requests))
    found = streamed.timed.work
    pairs = {
        "passes": (work.passes, found.passes),
        "tokens": (work.tokens, found.tokens),
        "stream_s": (time_work(work, model), streamed.timed.seconds),
    }
    return {name: round(predicted / measured - 1, 3) for name, (predicted, measured) in pairs.items()}


def make_clock(device: str) -> Callable[[], float]:
    """Return a clock in seconds: of the CPU time of this process for ``cpu``, else of the wall."""
    return time.process_time if torch.device(device if device != "auto" else "cpu").type == "cpu" else time.perf_counter


def weights_mb(checkpoint: Checkpoint) -> float:
    """Return the size of the weights in MiB."""
    return sum(weight.nbytes for weight in checkpoint.model.parameters()) / 2**20
