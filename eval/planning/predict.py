"""Predicts time, memory and storage of a run from the workloads of its videos and measured constants. No torch.

The time of a stream is linear in its passes, the videos in them, their tokens and their contexts. The first video of a
worker streams alone at first. Then videos share passes, so these passes are those of the busiest place in the batch.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from engine.video.decoding_work import DecodingWork
from eval.planning.constants import Machine, ModelConstants
from eval.planning.workload import VideoLoad
from eval.runs.worker_messages import HEAD_START_FRAMES

MAX_DECODERS: Final = 4
"""Decoding threads of a worker; see ``engine.model.features.encoder_pool``."""
MAX_CONTEXT: Final = 4096
"""Tokens after which a context becomes shorter; see ``StreamConfig.max_seq_len``."""
_MEAN_CONTEXT: Final = 0.5
"""Mean length of a context over its final length: it grows evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWork:
    """The work of streaming some videos on one device."""

    passes: float
    """Forward passes; one of many videos counts once."""
    rows: float
    """Videos in them, summed over passes."""
    tokens: float
    """Tokens fed."""
    context: float
    """Tokens of the contexts that were read, summed over rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The predicted cost of a run."""

    num_videos: int
    num_frames: int
    video_s: float
    """Seconds of video."""
    num_turns: int
    num_devices: int
    batch_size: int
    passes: float
    tokens: float
    start_s: float
    """Until the first frame: imports and loading."""
    decode_s: float
    """Seconds of one core, over all videos."""
    has_files: bool
    """Whether a video file was read; else decoding is that of the measured videos."""
    other_codecs: tuple[str, ...]
    """Codecs of the videos that were not measured, so that decoding is uncertain."""
    encode_s: float | None
    """Seconds of one device; None if it is unknown."""
    stream_s: float
    """Seconds of one device."""
    score_s: float
    """Scoring, on one core beside the run."""
    worker_s: float
    """Seconds of the busiest worker from its first frame to its last, beside the scores of videos that finished."""
    wall_s: float
    """From the start of the command to its tables."""
    worker_mb: float
    """Memory of the busiest worker; on a GPU of its device."""
    run_bytes: float
    """Size of the run folder."""
    feature_bytes: float
    """Size of kept features."""


def predict(
    loads: Sequence[VideoLoad],
    machine: Machine,
    arch: str,
    *,
    fps: Sequence[float],
    num_devices: int,
    batch_size: int,
    keeps_features: bool = False,
    has_features: bool = False,
) -> Plan:
    """Return the predicted cost of a run.

    Args:
        loads: The workloads of the videos.
        machine: Constants of the hardware.
        arch: One of ``machine.models``.
        fps: Sampled frames per second of each video.
        num_devices: Devices, each with a worker.
        batch_size: Videos per forward pass at most.
        keeps_features: Whether features are written.
        has_features: Whether all features exist already, so that nothing is decoded or encoded.
    """
    model = machine.models[arch]
    num_frames = sum(load.frames for load in loads)
    shares = share_out(loads, num_devices)
    works = [count_work(share, model, batch_size=batch_size) for share in shares]
    decode_s = 0.0 if has_features else time_decoding(loads, machine)
    encode_s = 0.0 if has_features else None if model.encode_s is None else model.encode_s * num_frames
    stream_s = [time_work(work, model) for work in works]
    busy_s = [
        _worker_s(
            decode_s=decode_s * sum(load.frames for load in share) / max(num_frames, 1),
            encode_s=(encode_s or 0.0) * sum(load.frames for load in share) / max(num_frames, 1),
            stream_s=seconds,
            machine=machine,
            num_devices=num_devices,
        )
        for share, seconds in zip(shares, stream_s, strict=True)
    ]
    is_gpu = machine.device != "cpu"
    cores = machine.num_cores * max(1.0, num_devices / max(machine.num_devices, 1))
    start_s, videos_s = machine.import_s + model.load_s, machine.score_video_s * len(loads)
    late_s = max(0.0, machine.score_s - (cores - 1) * start_s)  # the other cores begin with it while one imports
    on_cores_s = late_s + videos_s + decode_s + (0.0 if is_gpu else (encode_s or 0.0) + sum(stream_s))
    worker_s, score_s = max(on_cores_s / cores, *busy_s, 0.0), machine.score_s + videos_s
    return Plan(
        num_videos=len(loads),
        num_frames=num_frames,
        video_s=sum(load.frames / rate for load, rate in zip(loads, fps, strict=True)),
        num_turns=sum(load.turns for load in loads),
        num_devices=num_devices,
        batch_size=batch_size,
        passes=sum(work.passes for work in works),
        tokens=sum(work.tokens for work in works),
        start_s=start_s,
        decode_s=decode_s,
        has_files=any(load.decoding is not None for load in loads),
        other_codecs=find_other_codecs(loads, machine),
        encode_s=encode_s,
        stream_s=sum(stream_s),
        score_s=score_s,
        worker_s=worker_s,
        wall_s=max(score_s, start_s + worker_s) + machine.tables_s,  # scores start with the command
        worker_mb=(0.0 if is_gpu else machine.base_mb)
        + model.weights_mb
        + model.video_mb * min(batch_size, max(map(len, shares), default=0)),
        run_bytes=machine.run_bytes
        + sum(load.frame_bytes * load.frames + load.characters + machine.video_bytes for load in loads),
        feature_bytes=float(model.feature_bytes * num_frames) if keeps_features or has_features else 0.0,
    )


def share_out(loads: Sequence[VideoLoad], num_devices: int) -> list[list[VideoLoad]]:
    """Return the videos of each device, the longest first, each to the device with the fewest frames."""
    shares: list[list[VideoLoad]] = [[] for _ in range(min(num_devices, len(loads)))]
    frames = [(0, number) for number in range(len(shares))]
    for load in sorted(loads, key=lambda load: -load.frames):
        least, number = heapq.heappop(frames)
        shares[number].append(load)
        heapq.heappush(frames, (least + load.frames, number))
    return shares


def count_work(loads: Sequence[VideoLoad], model: ModelConstants, *, batch_size: int) -> StreamWork:
    """Return the work of one worker: the first video has a head start, and a video that ends is replaced by the next.

    Example: videos of 9, 4 and 4 passes, two at once. The first is shorter than the head start and ends alone, after 9
    passes. The others share 4, which makes 13 passes with 17 rows.
    """
    if not loads:
        return StreamWork(passes=0, rows=0, tokens=0, context=0)
    first, *others = loads
    passes = [model.first_passes.of(first), *map(model.passes.of, others)]
    contexts = [min(model.context.of(load), MAX_CONTEXT) * _MEAN_CONTEXT for load in loads]
    ahead = passes[0] * min(1.0, HEAD_START_FRAMES / max(first.frames, 1))
    places = [0.0] * (batch_size - 1) + [passes[0] - ahead]
    for number in passes[1:]:
        heapq.heapreplace(places, places[0] + number)
    return StreamWork(
        passes=ahead + max(places),
        rows=sum(passes),
        tokens=sum(model.tokens.of(load) for load in loads),
        context=sum(number * context for number, context in zip(passes, contexts, strict=True)),
    )


def time_work(work: StreamWork, model: ModelConstants) -> float:
    """Return the seconds of one device for some work."""
    return (
        model.pass_s * work.passes
        + model.row_s * work.rows
        + model.token_s * work.tokens
        + model.context_s * work.context
    )


def time_decoding(loads: Sequence[VideoLoad], machine: Machine) -> float:
    """Return the seconds of one core for decoding; videos whose files were not read count as the others per frame."""
    known = [(load.frames, load.decoding) for load in loads if load.decoding is not None]
    known_frames, num_frames = sum(frames for frames, _ in known), sum(load.frames for load in loads)
    if not known_frames:
        return machine.decode_frame_s * num_frames
    return sum(time_pictures(decoding, machine) for _, decoding in known) * num_frames / known_frames


def find_other_codecs(loads: Sequence[VideoLoad], machine: Machine) -> tuple[str, ...]:
    """Return the codecs of the videos that the machine was not measured with, in alphabetic order."""
    codecs = {load.decoding.codec for load in loads if load.decoding is not None}
    return tuple(sorted(codecs - set(machine.decode_codecs)))


def time_pictures(decoding: DecodingWork, machine: Machine) -> float:
    """Return the seconds of one core for decoding some pictures."""
    return machine.decode_megapixel_s * decoding.megapixels + machine.decode_megabyte_s * decoding.megabytes


def _worker_s(*, decode_s: float, encode_s: float, stream_s: float, machine: Machine, num_devices: int) -> float:
    """Return the seconds of one worker, whose decoding, encoding and streaming overlap where it has room."""
    if machine.device != "cpu":
        return max(encode_s + stream_s, decode_s / max(1, min(MAX_DECODERS, machine.cores_per_device)))
    num_sharing = min(num_devices, machine.num_devices)
    cores = max(1.0, machine.num_cores / max(num_sharing, 1))
    return max(stream_s, encode_s, (decode_s + encode_s + stream_s) / cores)


def choose_batch(num_videos: int, num_devices: int, batch_size: int | None, *, default: int) -> int:
    """Return the videos per forward pass: at most a worker's share of the videos, as the scheduler sends them."""
    return max(1, min(batch_size or default, ceil(num_videos / max(num_devices, 1))))
