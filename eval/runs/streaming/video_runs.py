"""Streams the videos of a split, several in one forward pass; each one ends with its own result.

A damaged video is run up to the damage, with a warning. With a folder for features, embeddings are stored there in
float16 and read back, in the first run too, so that every run with the folder uses the same numbers.
"""

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import perf_counter as read_clock_s

from stepscope.engine.control.task import Task, find_late_turns
from stepscope.engine.errors import EngineError
from stepscope.engine.inference.cuda_graphs import describe_graphs
from stepscope.engine.inference.memory import device_memory_mb, peak_memory_mb, token_bytes, used_memory_mb
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.encoder_pool import EncoderPool
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import Streamer, StreamEvent, StreamRequest
from stepscope.eval.data.samples import Sample, build_task, describe_other_end
from stepscope.eval.metrics.matched_video import LiveCounts
from stepscope.eval.metrics.videollm_online import count_live
from stepscope.eval.runs.folder import VideoRecord, digest_sample
from stepscope.eval.runs.streaming.sample_features import SampleFeatures
from stepscope.eval.runs.streaming.teacher_forcing import read_live_turns
from stepscope.eval.runs.worker_messages import (
    HEAD_START_FRAMES,
    USAGE_INTERVAL_S,
    FramesDone,
    VideoResult,
    WorkerConfig,
    WorkerUsage,
)


@dataclass(slots=True, eq=False)
class _Video:
    """A video in flight."""

    sample: Sample
    task: Task
    record: VideoRecord
    features: Iterator[FrameFeatures]
    warnings: list[str]
    """Problems of its video, which are complete when its frames are."""
    reuses: bool
    """Whether its embeddings were kept by an earlier run."""
    outputs: list[FrameOutput] = field(default_factory=list)
    began_s: float = 0.0
    """Reading of the ``SharedClock`` at its start."""


def run_samples(
    checkpoint: Checkpoint,
    worker_config: WorkerConfig,
    samples: Iterable[Sample | None],
    *,
    device: str,
    batch_size: int,
    num_cores: int = 1,
) -> Generator[FramesDone | VideoResult]:
    """Stream the videos of samples, followed by the teacher-forced pass of each if ``worker_config.live``.

    Up to ``batch_size`` videos share a forward pass, after a head start of the first one by ``HEAD_START_FRAMES``, so
    that a result exists early. The outputs of each are those of a run of its own. An invalid video or record becomes
    the ``error`` of its own result; all other exceptions propagate. Samples are requested as videos end; None: none is
    available yet, ask again after the next pass.
    """
    streamer = Streamer(checkpoint, worker_config.config)
    with EncoderPool(checkpoint, num_cores=num_cores, num_videos=batch_size) as pool:
        runs = _VideoRuns(streamer, worker_config, device=device, batch_size=batch_size, pool=pool)
        with closing(streamer.run_many(runs.requests(samples), max_batch_size=batch_size)) as events:
            for event in events:
                yield runs.handle(event)


class _VideoRuns:
    """The videos in flight of one worker."""

    def __init__(
        self, streamer: Streamer, worker_config: WorkerConfig, *, device: str, batch_size: int, pool: EncoderPool
    ) -> None:
        self._streamer, self._checkpoint = streamer, streamer.checkpoint
        self._config = worker_config
        self._features = SampleFeatures.of_run(self._checkpoint, worker_config, pool.encode)
        self._device, self._batch_size = device, batch_size
        self._videos: dict[str, _Video] = {}
        self._clock = SharedClock()
        self._measured_s, self._measured_tokens = time.monotonic(), 0

    def requests(self, samples: Iterable[Sample | None]) -> Iterator[StreamRequest | None]:
        """Yield the request of each sample as it is asked for; None while the first video is ahead.

        The next samples are decoded meanwhile, one more each time.
        """
        first, arrivals, waiting = "", iter(samples), deque[_Video]()
        while True:
            # read before the next sample is requested, whose arrival may take long
            is_ahead = self._is_ahead(first)
            if waiting and not is_ahead:
                yield self._begin(waiting.popleft())
                continue
            if is_ahead and len(waiting) + 1 >= self._batch_size:
                yield None
                continue
            try:
                sample = next(arrivals)
            except StopIteration:
                if not waiting:
                    return
                sample = None
            if sample is None:
                yield None
            elif is_ahead:
                waiting.append(self._open(sample))
                yield None
            else:
                first = first or sample.video_id
                yield self._begin(self._open(sample))

    def handle(self, event: StreamEvent) -> FramesDone | VideoResult:
        """Count a frame, or finish a video."""
        now_s = self._clock.read(len(self._videos))
        video = self._videos[event.video_id]
        if event.output is not None:
            video.outputs.append(event.output)
            return FramesDone(video_id=event.video_id, num_done=len(video.outputs), usage=self._measure())
        del self._videos[event.video_id]
        if event.error is not None:
            return VideoResult(record=replace(video.record, error=str(event.error)))
        result = self._finish(video, wall_s=now_s - video.began_s)
        self._clock.skip()
        return result

    def _measure(self) -> WorkerUsage | None:
        """Return the present use of the worker; None if it was measured less than ``USAGE_INTERVAL_S`` ago."""
        elapsed_s = time.monotonic() - self._measured_s
        if elapsed_s < USAGE_INTERVAL_S:
            return None
        num_new = self._streamer.counts.tokens - self._measured_tokens
        self._measured_s += elapsed_s
        self._measured_tokens += num_new
        model, cache_tokens = self._checkpoint.model, self._streamer.cache_tokens
        return WorkerUsage(
            tokens_per_s=num_new / elapsed_s,
            cache_tokens=cache_tokens,
            cache_mb=cache_tokens * token_bytes(model) / 2**20,
            memory_mb=used_memory_mb(model.device),
            device_mb=device_memory_mb(model.device),
        )

    def _is_ahead(self, video_id: str) -> bool:
        """Return whether a video is in flight and within its head start."""
        video = self._videos.get(video_id)
        return video is not None and len(video.outputs) < HEAD_START_FRAMES

    def _open(self, sample: Sample) -> _Video:
        """Start to decode a video, or open its kept embeddings."""
        record = VideoRecord(
            video_id=sample.video_id,
            source=digest_sample(sample),
            fps=sample.fps,
            device=self._device,
            batch_size=self._batch_size,
        )
        warnings = list[str]()
        return _Video(
            sample=sample,
            task=build_task(sample),
            record=record,
            reuses=self._features.is_kept(sample),
            features=self._features.embed(sample, warnings),
            warnings=warnings,
        )

    def _begin(self, video: _Video) -> StreamRequest:
        video.began_s = self._clock.read(len(self._videos))
        self._videos[video.sample.video_id] = video
        return StreamRequest(
            video_id=video.sample.video_id,
            features=video.features,
            task=video.task,
            fps=video.sample.fps,
            checks_probs=True,
        )

    def _finish(self, video: _Video, *, wall_s: float) -> VideoResult:
        try:
            live = self._count_live(video.sample) if self._config.live else None
        except (EngineError, ValueError) as error:
            return VideoResult(record=replace(video.record, error=str(error)))
        fps, num_frames = video.sample.fps, len(video.outputs)
        other_end = describe_other_end(video.sample, num_frames)
        warnings = video.warnings + ([f"the video {other_end}"] if other_end else [])
        warnings += [
            f"the user turn at {turn.time_s:g} s lies after the end of the video and was not fed"
            for turn in find_late_turns(video.task, fps=fps, num_frames=num_frames)
        ]
        record = replace(
            video.record,
            num_frames=num_frames,
            wall_s=wall_s,
            peak_memory_mb=peak_memory_mb(self._checkpoint.model.device),
            graphs=describe_graphs(self._checkpoint, self._config.config),
            warning="; ".join(dict.fromkeys(warnings)),
            live=live,
            reused_features=video.reuses,
        )
        return VideoResult(record=record, outputs=tuple(video.outputs))

    def _count_live(self, sample: Sample) -> LiveCounts:
        config = replace(self._config.config, fps=sample.fps)
        frames = replace(self._features, encode_frames=None).embed(sample)
        turns = read_live_turns(self._checkpoint, config, sample, frames)
        return count_live(turns, fps=sample.fps, threshold=0)


class SharedClock:
    """Divides wall time equally between the videos in flight, so that their times add up to the worker's.

    Worked example: two videos start together. The first ends after 6 s, the second runs 2 s longer. The first read 3 s,
    the second 5 s, 8 s in all.
    """

    def __init__(self) -> None:
        self._shared_s, self._ticked_s = 0.0, read_clock_s()

    def read(self, num_videos: int) -> float:
        """Return the seconds so far per video, of which the latest were shared by ``num_videos``."""
        now_s = read_clock_s()
        self._shared_s += (now_s - self._ticked_s) / max(num_videos, 1)
        self._ticked_s = now_s
        return self._shared_s

    def skip(self) -> None:
        """Leave out the time since the last reading."""
        self._ticked_s = read_clock_s()
