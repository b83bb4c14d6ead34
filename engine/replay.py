"""Runs a finished stream again with other thresholds and reuses the common part. The outputs are those of a new run.

Two runs that differ only in thresholds feed and read the same items up to the first decision that differs. A
``Recording`` keeps the trace of a run, so nothing runs again up to there. Then the KV cache is cropped. If a refresh
lies between, the context is fed again in one pass. After that point the earlier outputs still serve as drafts, and
passes verify them many frames at a time.

Worked example: run A has the speaking threshold 0.9 and speaks at frame 50. Run B has 0.8 and also speaks at frame 30.
Frames 0 to 30 cost nothing. B crops the cache after the image of frame 30 and generates its response. From frame 31 on,
it verifies the outputs of A.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.config import StreamConfig, format_thresholds
from engine.control.controller import Task
from engine.control.requests import PassCounts
from engine.control.speculator import PriorRun
from engine.inspection import FrameInspection, inspect_frame, trace_frames
from engine.model.checkpoint import Checkpoint
from engine.model.frame_encoder import FrameFeatures
from engine.model.kv_cache import KVCache
from engine.records import FrameOutput
from engine.streamer import Streamer, StreamRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """A pair of thresholds."""

    speak: float
    """The assistant speaks when ``speak_prob`` is greater, in [0, 1]."""
    update: float
    """The assistant updates the state when ``update_prob`` is greater, in [0, 1]."""

    def __str__(self) -> str:
        """Return both as text."""
        return format_thresholds(self.speak, self.update)


class Recording:
    """One run of one video that can run again with other thresholds.

    Args:
        checkpoint: A checkpoint from ``load_model``.
        features: The embedded frames, in order; they are kept in memory.
        task: The task of the stream.
        config: Stream settings.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        features: Iterable[FrameFeatures],
        *,
        task: Task | None = None,
        config: StreamConfig | None = None,
    ) -> None:
        self.task = task or Task()
        self.outputs: list[FrameOutput] = []
        """The outputs so far."""
        self._streamer = Streamer(checkpoint, config)
        self._features: list[FrameFeatures] = []
        self._source: Iterable[FrameFeatures] | None = features
        self._prior_run: PriorRun | None = None
        self._cache: KVCache | None = None

    def run(self) -> Generator[FrameOutput]:
        """Stream the video once. Raises as ``Streamer.run`` does, and ``ValueError`` at a second run."""
        if self._source is None:
            raise ValueError("a recording runs only once; call at() for a new one")
        features = self._source if isinstance(self._source, Sequence) else self._keep(self._source)
        if isinstance(self._source, Sequence):
            self._features = list(self._source)
        video = StreamRequest(
            video_id="",
            features=features,
            task=self.task,
            prior_run=self._prior_run,
            cache=self._cache,
            is_traced=True,
        )
        self._source = self._prior_run = self._cache = None
        for event in self._streamer.run_many([video], max_batch_size=1):
            if event.error is not None:
                raise event.error
            if event.output is not None:
                self.outputs.append(event.output)
                yield event.output
            else:
                self._prior_run = PriorRun(outputs=tuple(self.outputs), trace=event.trace)
                self._cache = event.cache

    def at(self, *, speak_threshold: float, update_threshold: float) -> "Recording":
        """Return a recording of the same frames at other thresholds, which has yet to run.

        It takes over the KV cache of this one, so a second call must feed the context again. If this run was stopped,
        the new one has the same number of frames. Sampled texts are drawn again, without reuse.

        Raises:
            ValueError: A threshold out of its range.
        """
        config = replace(self.config, speak_threshold=speak_threshold, update_threshold=update_threshold)
        features = tuple(self._features[: len(self.outputs)])
        recording = Recording(self._streamer.checkpoint, features, task=self.task, config=config)
        recording._streamer.memory = self._streamer.memory
        if config.do_sample:
            return recording
        recording._prior_run = self._prior_run or PriorRun(outputs=tuple(self.outputs))
        recording._cache = self._cache
        if self._prior_run is not None and self._prior_run.trace is not None:
            trace = replace(self._prior_run.trace, num_cached=0)
            self._prior_run, self._cache = replace(self._prior_run, trace=trace), None
        return recording

    @property
    def num_bytes(self) -> int:
        """Memory of the features and the KV cache that it keeps, in bytes."""
        cache = 0 if self._cache is None else self._cache.num_bytes
        return cache + sum(frame.features.nbytes for frame in self._features)

    @property
    def config(self) -> StreamConfig:
        """Settings of the run."""
        return self._streamer.config

    def inspect(self, frame_index: int) -> FrameInspection:
        """Return the context and the token probabilities at a frame of the run.

        The trace of the finished run is used. Without a trace the stream runs again up to the frame.
        Raises ``ValueError`` for a frame that the run does not have.
        """
        checkpoint, config = self._streamer.checkpoint, self.config
        if not 0 <= frame_index < len(self.outputs):
            raise ValueError(f"frame {frame_index} does not exist; the run has {len(self.outputs)} frames")
        features = self._features[: frame_index + 1]
        trace = self._prior_run.trace if self._prior_run is not None else None
        if trace is None:
            trace = trace_frames(checkpoint, features, task=self.task, config=config, outputs=self.outputs)
        return inspect_frame(checkpoint, features, trace, frame_index=frame_index, config=config)

    @property
    def counts(self) -> PassCounts:
        """Cost of the run so far; reused results cost nothing."""
        return self._streamer.counts

    def _keep(self, features: Iterable[FrameFeatures]) -> Iterator[FrameFeatures]:
        for frame in features:
            self._features.append(frame)
            yield frame
