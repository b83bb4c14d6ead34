"""Runs one video of a split with a loaded checkpoint; in a process of its own, or wherever a scheduler puts it.

A damaged video is run as far as it goes, with a remark. With a folder for features, embeddings are kept there in
float16 and used from there, in the first run too, so that every run with the folder sees the same numbers.
"""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from engine.model.checkpoint import Checkpoint
from engine.config import StreamConfig
from engine.control.controller import Task, find_late_turns
from engine.errors import EngineError, VideoError
from engine.model.feature_files import feature_info, feature_path, read_features, read_remark, write_features
from engine.records import FrameOutput, check_probs
from engine.streamer import Streamer
from engine.video.reader import Frame, read_frames
from engine.model.frame_encoder import FrameFeatures, encode
from eval.metrics.videollm_online import LiveCounts, count_live
from eval.runs.folder import VideoRecord, digest_sample
from eval.data.samples import Sample
from eval.runs.teacher_forcing import live_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is done with every video."""

    checkpoint: str
    """Folder or hub id."""
    heads: Path | None = None
    """Heads file, if not the checkpoint's own."""
    config: StreamConfig = field(default_factory=StreamConfig)
    """How to stream; each video at its own rate."""
    live: bool = False
    """Whether to count VideoLLM-online's scores in a second, teacher-forced pass."""
    features: Path | None = None
    """Folder in which embeddings are kept; None keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoResult:
    """A video that was run, well or not."""

    record: VideoRecord
    """What is known of it; its ``error`` says why it failed."""
    outputs: tuple[FrameOutput, ...] = ()
    """One per frame; none when it failed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddedSample:
    """The embedded frames of a video."""

    frames: tuple[FrameFeatures, ...]
    """In order."""
    remark: str
    """What is odd about the video; empty when all is well."""


def run_sample(
    checkpoint: Checkpoint, work: Work, sample: Sample, *, device: str, on_frame: Callable[[int], None]
) -> VideoResult:
    """Stream one sample's video, and feed the reference where that is wanted; ``on_frame`` hears of each frame.

    What is wrong with the video or its record becomes the result's error; nothing else is caught.
    """
    source, remarks = digest_sample(sample), list[str]()
    reuses = _kept_features(checkpoint, work, sample)
    config = replace(work.config, fps=sample.fps)
    task = task_of(sample)
    try:
        began = time.perf_counter()
        outputs = []
        frames = _frames(checkpoint, work, sample, remarks)
        for output in map(check_probs, Streamer(checkpoint, config).run(frames, task)):
            outputs.append(output)
            on_frame(len(outputs))
        wall_s = time.perf_counter() - began
        live = _teacher_forced(checkpoint, work, config, sample) if work.live else None
    except (EngineError, ValueError) as error:
        return VideoResult(record=VideoRecord(video_id=sample.video_id, source=source, device=device, error=str(error)))
    remarks += [
        f"the user turn at {turn.time_s:g} s lies behind the end and was not fed"
        for turn in find_late_turns(task, fps=sample.fps, num_frames=len(outputs))
    ]
    record = VideoRecord(
        video_id=sample.video_id,
        source=source,
        num_frames=len(outputs),
        wall_s=wall_s,
        device=device,
        peak_memory_mb=_peak_memory_mb(checkpoint.model.device),
        remark="; ".join(dict.fromkeys(remarks)),
        live=live,
        reused_features=reuses,
    )
    return VideoResult(record=record, outputs=tuple(outputs))


def embed_sample(checkpoint: Checkpoint, work: Work, sample: Sample) -> EmbeddedSample:
    """Decode and encode all of one sample's video, or take what is kept. Raises ``EngineError`` where that fails."""
    remarks = list[str]()
    frames = tuple(_frames(checkpoint, work, sample, remarks))
    return EmbeddedSample(frames=frames, remark="; ".join(dict.fromkeys(remarks)))


def task_of(sample: Sample) -> Task:
    """Return what a sample's video is streamed with."""
    return Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns, initial_state=sample.initial_state)


def _frames(checkpoint: Checkpoint, work: Work, sample: Sample, remarks: list[str]) -> Iterator[FrameFeatures]:
    """Decode and encode one sample's video, or take what is kept of it; ``remarks`` grow with what is odd about it.

    Raises ``VideoError`` when it has none.
    """
    video = sample.video_path
    if video is None:
        raise VideoError(f"{sample.video_id} names no video file; add video_path, or give --videos DIR")
    if work.features is None:
        return encode(checkpoint, _read(sample, video, remarks))
    if not video.is_file():
        raise VideoError(f"{video} is not there; mend video_path")
    info = feature_info(checkpoint, fps=sample.fps)
    try:
        path = feature_path(work.features, video, info, excerpt=sample.excerpt)
    except OSError as error:
        raise VideoError(f"{video} cannot be read: {error.strerror or error}; check its permissions") from error
    if not path.exists():
        seen = list[str]()
        frames = list(encode(checkpoint, _read(sample, video, seen)))
        write_features(path, frames, info, remark="; ".join(seen))
    remarks += [remark for remark in [read_remark(path)] if remark]
    return read_features(path, checkpoint, fps=sample.fps)


def _read(sample: Sample, video: Path, remarks: list[str]) -> Iterator[Frame]:
    """Read a sample's part of its video; ``remarks`` grow with damage, and with frames that the file does not have."""
    num_frames = 0
    for frame in read_frames(video, fps=sample.fps, excerpt=sample.excerpt, on_damage=remarks.append):
        num_frames += 1
        yield frame
    if sample.start_s is not None and num_frames < sample.num_frames:
        remarks.append(
            f"{video} ends after {num_frames} of the {sample.num_frames} frames of the clip, which starts at "
            f"{sample.start_s:g} s; is it the whole video?"
        )


def _kept_features(checkpoint: Checkpoint, work: Work, sample: Sample) -> bool:
    """Whether the embeddings of a sample's video are kept already."""
    if work.features is None or sample.video_path is None or not sample.video_path.is_file():
        return False
    try:
        info = feature_info(checkpoint, fps=sample.fps)
        return feature_path(work.features, sample.video_path, info, excerpt=sample.excerpt).exists()
    except OSError:
        return False  # why the video cannot be read is said when it is read


def _teacher_forced(checkpoint: Checkpoint, work: Work, config: StreamConfig, sample: Sample) -> LiveCounts:
    """Feed one sample's reference to the model and count its four scores."""
    turns = live_turns(checkpoint, config, sample, _frames(checkpoint, work, sample, []))
    return count_live(turns, fps=sample.fps, threshold=0)


def _peak_memory_mb(device: torch.device) -> float:
    """Return the largest memory so far: of the GPU where there is one, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
