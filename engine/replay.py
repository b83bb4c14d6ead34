"""Another threshold on a finished run: what is common is reused, the rest is run. The result is that of a new run.

Two runs that differ in thresholds alone feed and read the same up to the first decision that differs. A ``Recording``
keeps what was read there, so that up to there nothing is run; then its cache is cropped, or, where a refresh lies
between, the context fed again in one pass. Behind it the earlier run still tells what will probably be said, and
passes verify that, many frames at a time. ``replay`` needs the outputs alone, as in a run file, and verifies them all.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.config import StreamConfig
from engine.control.controller import Task
from engine.control.requests import PassCounts
from engine.control.speculator import Past
from engine.inspection import FrameInspection, inspect_frame, trace_frames
from engine.model.checkpoint import Checkpoint
from engine.model.frame_encoder import FrameFeatures
from engine.model.kv_cache import KVCache
from engine.records import FrameOutput
from engine.streamer import Streamer, Video


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """One point of a sweep."""

    speak: float
    """The assistant speaks when ``speak_prob`` is greater, in [0, 1]."""
    update: float
    """The assistant updates the state when ``update_prob`` is greater, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """A whole run at one point of a sweep."""

    thresholds: Thresholds
    """The point."""
    outputs: tuple[FrameOutput, ...]
    """One per frame, as a run of its own would give them."""
    counts: PassCounts
    """What this point has cost, beyond what its neighbour's run could lend it."""


class Recording:
    """One run of one video, kept so that other thresholds can be tried on it.

    Args:
        checkpoint: What ``load_model`` returned.
        frames: The embedded frames, in order. They are kept as they come.
        task: What is streamed besides them.
        config: How to stream.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        frames: Iterable[FrameFeatures],
        *,
        task: Task | None = None,
        config: StreamConfig | None = None,
    ) -> None:
        self.task = task or Task()
        self.outputs: list[FrameOutput] = []
        """What the run has given so far."""
        self._streamer = Streamer(checkpoint, config)
        self._frames: list[FrameFeatures] = []
        self._source: Iterable[FrameFeatures] | None = frames
        self._past: Past | None = None
        self._cache: KVCache | None = None

    def run(self) -> Generator[FrameOutput]:
        """Stream the video, once. Raises as ``Streamer.run`` does, and ``ValueError`` when it is run again."""
        if self._source is None:
            raise ValueError("a recording is run once; ask it for another with at()")
        frames = self._source if isinstance(self._source, Sequence) else self._keep(self._source)
        if isinstance(self._source, Sequence):
            self._frames = list(self._source)
        video = Video(video_id="", frames=frames, task=self.task, past=self._past, cache=self._cache, is_traced=True)
        self._source = self._past = self._cache = None
        for step in self._streamer.run_many([video], rows=1):
            if step.error is not None:
                raise step.error
            if step.output is not None:
                self.outputs.append(step.output)
                yield step.output
            else:
                self._past, self._cache = Past(outputs=tuple(self.outputs), trace=step.trace), step.cache

    def at(self, *, speak_threshold: float, update_threshold: float) -> "Recording":
        """Return the recording of the same frames at other thresholds, yet to be run.

        It takes over this one's cache; the next that is asked for feeds its context again. A run that was stopped is
        taken as far as it went. Sampled texts are drawn anew: nothing is reused.

        Raises:
            ValueError: A threshold out of its range.
        """
        config = replace(self.config, speak_threshold=speak_threshold, update_threshold=update_threshold)
        frames = tuple(self._frames[: len(self.outputs)])
        other = Recording(self._streamer.checkpoint, frames, task=self.task, config=config)
        other._streamer.sayings = self._streamer.sayings
        if config.do_sample:
            return other
        other._past, other._cache = self._past or Past(outputs=tuple(self.outputs)), self._cache
        if self._past is not None and self._past.trace is not None:
            self._past, self._cache = replace(self._past, trace=replace(self._past.trace, cached=0)), None
        return other

    @property
    def num_bytes(self) -> int:
        """Memory of the frames and the cache that it keeps, in bytes."""
        cache = 0 if self._cache is None else self._cache.num_bytes
        return cache + sum(frame.features.nbytes for frame in self._frames)

    @property
    def config(self) -> StreamConfig:
        """How the video is streamed."""
        return self._streamer.config

    def inspect(self, frame_index: int) -> FrameInspection:
        """Return what the model read at a frame of the run, as far as it went.

        The trace of the finished run is used; without it the stream is followed up to the frame again.
        Raises ``ValueError`` for a frame that the run does not have.
        """
        checkpoint, config = self._streamer.checkpoint, self.config
        if not 0 <= frame_index < len(self.outputs):
            raise ValueError(f"there is no frame {frame_index}; the run has {len(self.outputs)} frames")
        frames = self._frames[: frame_index + 1]
        trace = self._past.trace if self._past is not None else None
        if trace is None:
            trace = trace_frames(checkpoint, frames, task=self.task, config=config, outputs=self.outputs)
        return inspect_frame(checkpoint, frames, trace, frame_index=frame_index, config=config)

    @property
    def counts(self) -> PassCounts:
        """What the run has cost so far; what it reuses costs nothing."""
        return self._streamer.counts

    def _keep(self, frames: Iterable[FrameFeatures]) -> Iterator[FrameFeatures]:
        for frame in frames:
            self._frames.append(frame)
            yield frame


def replay(
    checkpoint: Checkpoint,
    outputs: Sequence[FrameOutput],
    frames: Sequence[FrameFeatures],
    *,
    task: Task,
    config: StreamConfig,
) -> Generator[FrameOutput]:
    """Stream frames with ``config``, guessing that all goes as in the ``outputs`` of a run with other thresholds.

    The guess is verified, so it need not be right. Raises as ``Streamer.run`` does.
    """
    video = Video(video_id="", frames=frames, task=task, past=Past(outputs=tuple(outputs)))
    for step in Streamer(checkpoint, config).run_many([video], rows=1):
        if step.error is not None:
            raise step.error
        if step.output is not None:
            yield step.output


def sweep(
    checkpoint: Checkpoint,
    frames: Sequence[FrameFeatures],
    thresholds: Iterable[Thresholds],
    *,
    task: Task | None = None,
    config: StreamConfig | None = None,
) -> Generator[SweepPoint]:
    """Run a video at many thresholds, each from its neighbour's run. Points come in the order of their thresholds."""
    recording: Recording | None = None
    for point in sorted(set(thresholds), key=lambda point: (point.update, point.speak)):
        if recording is None:
            settings = replace(config or StreamConfig(), speak_threshold=point.speak, update_threshold=point.update)
            recording = Recording(checkpoint, frames, task=task, config=settings)
        else:
            recording = recording.at(speak_threshold=point.speak, update_threshold=point.update)
        outputs = tuple(recording.run())
        yield SweepPoint(thresholds=point, outputs=outputs, counts=recording.counts)
