"""Run of one video of a split with a loaded checkpoint, in any process.

A damaged video is run up to the damage, with a warning. With a folder for features, embeddings are stored there in
float16 and read back, in the first run too, so that every run with the folder uses the same numbers.
"""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from engine.config import StreamConfig
from engine.control.controller import Task, find_late_turns
from engine.errors import EngineError, VideoError
from engine.loading import load_model
from engine.model.checkpoint import Checkpoint
from engine.model.feature_files import feature_info, feature_path, read_features, read_remark, write_features
from engine.model.frame_encoder import FrameFeatures, encode
from engine.records import FrameOutput, check_probs
from engine.streamer import Streamer
from engine.video.reader import Frame, read_frames
from eval.data.samples import Sample
from eval.metrics.videollm_online import LiveCounts, count_live
from eval.runs.folder import VideoRecord, digest_sample
from eval.runs.teacher_forcing import read_live_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """The hardware of one worker."""

    device: str
    """A torch device."""
    num_threads: int | None = None
    """Torch threads; None keeps torch's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Checkpoint and settings, equal for every video."""

    checkpoint: str
    """Folder or hub id."""
    heads: Path | None = None
    """Heads file that replaces the checkpoint's own."""
    config: StreamConfig = field(default_factory=StreamConfig)
    """Settings of the stream; the frame rate is each video's own."""
    live: bool = False
    """Whether to count VideoLLM-online's scores in a second, teacher-forced pass."""
    features: Path | None = None
    """Folder in which embeddings are kept; None keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoResult:
    """The result of a video, finished or failed."""

    record: VideoRecord
    outputs: tuple[FrameOutput, ...] = ()
    """One per frame; empty if the video failed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddedSample:
    """The embedded frames of a video."""

    frames: tuple[FrameFeatures, ...]
    warning: str
    """A problem with the video, such as damage; empty if there is none."""


def load_checkpoint(worker_config: WorkerConfig, spec: WorkerSpec) -> Checkpoint:
    """Load the checkpoint in a worker's own process, with its number of torch threads. Raises as ``load_model``."""
    transformers_logging.disable_progress_bar()
    if spec.num_threads is not None:
        torch.set_num_threads(spec.num_threads)
    return load_model(worker_config.checkpoint, device=spec.device, heads=worker_config.heads)


def run_sample(
    checkpoint: Checkpoint, worker_config: WorkerConfig, sample: Sample, *, device: str, on_frame: Callable[[int], None]
) -> VideoResult:
    """Stream one sample's video, followed by the teacher-forced pass if ``worker_config.live``.

    ``on_frame`` is called after each frame with the number of frames done. An invalid video or record becomes the
    result's ``error``; all other exceptions propagate.
    """
    source, warnings = digest_sample(sample), list[str]()
    reuses = _has_kept_features(checkpoint, worker_config, sample)
    config = replace(worker_config.config, fps=sample.fps)
    task = build_task(sample)
    try:
        start_s = time.perf_counter()
        outputs = []
        frames = _embed_frames(checkpoint, worker_config, sample, warnings)
        for output in map(check_probs, Streamer(checkpoint, config).run(frames, task)):
            outputs.append(output)
            on_frame(len(outputs))
        wall_s = time.perf_counter() - start_s
        live = _count_teacher_forced(checkpoint, worker_config, config, sample) if worker_config.live else None
    except (EngineError, ValueError) as error:
        return VideoResult(record=VideoRecord(video_id=sample.video_id, source=source, device=device, error=str(error)))
    warnings += [
        f"the user turn at {turn.time_s:g} s lies after the end of the video and was not fed"
        for turn in find_late_turns(task, fps=sample.fps, num_frames=len(outputs))
    ]
    record = VideoRecord(
        video_id=sample.video_id,
        source=source,
        num_frames=len(outputs),
        wall_s=wall_s,
        device=device,
        peak_memory_mb=_peak_memory_mb(checkpoint.model.device),
        warning="; ".join(dict.fromkeys(warnings)),
        live=live,
        reused_features=reuses,
    )
    return VideoResult(record=record, outputs=tuple(outputs))


def embed_sample(checkpoint: Checkpoint, worker_config: WorkerConfig, sample: Sample) -> EmbeddedSample:
    """Decode and encode one sample's video, or read its kept embeddings. Raises ``EngineError`` if that fails."""
    warnings = list[str]()
    frames = tuple(_embed_frames(checkpoint, worker_config, sample, warnings))
    return EmbeddedSample(frames=frames, warning="; ".join(dict.fromkeys(warnings)))


def build_task(sample: Sample) -> Task:
    """Return the task that a sample's video is streamed with."""
    return Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns, initial_state=sample.initial_state)


def _embed_frames(
    checkpoint: Checkpoint, worker_config: WorkerConfig, sample: Sample, warnings: list[str]
) -> Iterator[FrameFeatures]:
    """Decode and encode one sample's video, or read its kept embeddings; append problems to ``warnings``.

    Raises ``VideoError`` if the sample has no video.
    """
    video = sample.video_path
    if video is None:
        raise VideoError(f"{sample.video_id} names no video file; add video_path, or give --videos DIR")
    if worker_config.features is None:
        return encode(checkpoint, _read_sample_frames(sample, video, warnings))
    if not video.is_file():
        raise VideoError(f"{video} does not exist; correct video_path")
    info = feature_info(checkpoint, fps=sample.fps)
    try:
        path = feature_path(worker_config.features, video, info, excerpt=sample.excerpt)
    except OSError as error:
        raise VideoError(f"{video} cannot be read: {error.strerror or error}; check its permissions") from error
    if not path.exists():
        seen = list[str]()
        frames = list(encode(checkpoint, _read_sample_frames(sample, video, seen)))
        write_features(path, frames, info, remark="; ".join(seen))
    warnings += [warning for warning in [read_remark(path)] if warning]
    return read_features(path, checkpoint, fps=sample.fps)


def _read_sample_frames(sample: Sample, video: Path, warnings: list[str]) -> Iterator[Frame]:
    """Read a sample's part of its video; append damage and missing frames to ``warnings``."""
    num_frames = 0
    for frame in read_frames(video, fps=sample.fps, excerpt=sample.excerpt, on_damage=warnings.append):
        num_frames += 1
        yield frame
    if sample.start_s is not None and num_frames < sample.num_frames:
        warnings.append(
            f"{video} ends after {num_frames} of the {sample.num_frames} frames of the clip, which starts at "
            f"{sample.start_s:g} s; is it the whole video?"
        )


def _has_kept_features(checkpoint: Checkpoint, worker_config: WorkerConfig, sample: Sample) -> bool:
    """Return whether an earlier run has kept the embeddings of a sample's video."""
    if worker_config.features is None or sample.video_path is None or not sample.video_path.is_file():
        return False
    try:
        info = feature_info(checkpoint, fps=sample.fps)
        return feature_path(worker_config.features, sample.video_path, info, excerpt=sample.excerpt).exists()
    except OSError:
        return False  # the error is reported when the video is read


def _count_teacher_forced(
    checkpoint: Checkpoint, worker_config: WorkerConfig, config: StreamConfig, sample: Sample
) -> LiveCounts:
    """Feed one sample's reference to the model and count the four VideoLLM-online scores."""
    turns = read_live_turns(checkpoint, config, sample, _embed_frames(checkpoint, worker_config, sample, []))
    return count_live(turns, fps=sample.fps, threshold=0)


def _peak_memory_mb(device: torch.device) -> float:
    """Return the peak memory so far in MiB: of the GPU if it is used, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
