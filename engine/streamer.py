"""Streams videos: joins each one's control with a runner. The iterator that everything else consumes."""

import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from engine.config import StreamConfig
from engine.control.controller import Steering, Task
from engine.control.draft_buffer import Trace
from engine.control.drafter import Sayings
from engine.control.requests import Answer, Control, Frames, Pass, PassCounts, Reading
from engine.control.speculator import Past
from engine.errors import EngineError
from engine.inference.cuda_graphs import Graphs
from engine.inference.runner import Runner, run_together
from engine.inference.static import Inputs
from engine.model.checkpoint import Checkpoint
from engine.model.frame_encoder import FrameFeatures
from engine.model.kv_cache import KVCache
from engine.records import FrameOutput


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Video:
    """One video to stream."""

    video_id: str
    """Name that its outputs are given with."""
    frames: Iterable[FrameFeatures]
    """Its embedded frames, in order."""
    task: Task = field(default_factory=Task)
    """What is streamed besides the frames."""
    fps: float | None = None
    """Frames sampled per second, if not the configuration's."""
    past: Past | None = None
    """An earlier run of it with other thresholds; see ``engine.replay``."""
    cache: KVCache | None = None
    """What that run has cached, if its trace is there; it is used up."""
    is_traced: bool = False
    """Whether its end gives trace and cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """What happened next in one of many videos."""

    video_id: str
    """The video."""
    output: FrameOutput | None = None
    """Its next output; None at its end."""
    error: EngineError | ValueError | None = None
    """What ended it early."""
    trace: Trace | None = None
    """At the end of a traced video, what was fed and read."""
    cache: KVCache | None = None
    """With the trace, what is cached."""


class Streamer:
    """Streams videos through a checkpoint's model.

    Args:
        checkpoint: What ``load_model`` returned.
        config: How to stream; its ``max_seq_len`` must fit the model's positions.
    """

    def __init__(self, checkpoint: Checkpoint, config: StreamConfig | None = None) -> None:
        self.checkpoint = checkpoint
        self.config = config or StreamConfig()
        self.sayings = Sayings()
        self._passes, self._ended, self._running = 0, PassCounts(), list[_Stream]()
        if self.config.max_seq_len > checkpoint.model.max_context:
            raise ValueError(
                f"max_seq_len is {self.config.max_seq_len}, but the model has positions for "
                f"{checkpoint.model.max_context} tokens; lower it"
            )

    def run(self, frames: Iterable[FrameFeatures], task: Task | None = None) -> Generator[FrameOutput]:
        """Stream the frames in order; yield one output per frame as soon as it is decided.

        Closing the generator ends the stream and closes ``frames``.

        Raises:
            ValueError: A task that contradicts itself.
            ContextError: A prompt or user turn that does not fit.
            FeatureError: Frame features of another model.
        """
        video = Video(video_id="", frames=frames, task=task or Task())
        for step in self.run_many([video], rows=1):
            if step.error is not None:
                raise step.error
            if step.output is not None:
                yield step.output

    def run_many(self, videos: Iterable[Video], *, rows: int = 16) -> Generator[Streamed]:
        """Stream many videos, ``rows`` at a time in one forward pass; yield what happens as it comes.

        A video that ends, or fails, makes room for the next. Each gives what it gives alone.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1; got {rows}")
        pool = self.checkpoint.graphs
        with nullcontext() if pool is None else pool.lend(self.config, rows=rows) as graphs:
            yield from self._run_many(iter(videos), rows, graphs)

    def _run_many(self, waiting: Iterator[Video], rows: int, graphs: Graphs | None) -> Generator[Streamed]:
        streams: list[_Stream] = []
        try:
            while True:
                while len(streams) < rows and (video := next(waiting, None)) is not None:
                    streams.append(_Stream(self, video, graphs))
                    self._running.append(streams[-1])
                    yield from streams[-1].advance(None)
                    if streams[-1].request is None:
                        self._end(streams.pop())
                if not streams:
                    return
                self._passes += 1
                for stream, reading in zip(streams, _run_together(streams, graphs), strict=True):
                    yield from stream.advance(reading)
                    if stream.request is None:
                        self._end(stream)
                streams = [stream for stream in streams if stream.request]
        finally:
            for stream in streams:
                self._end(stream)

    @property
    def counts(self) -> PassCounts:
        """What all runs so far have cost, those under way included; a pass of many streams counts once."""
        total = sum((stream.counts for stream in self._running), self._ended)
        return replace(total, passes=self._passes)

    def _end(self, stream: "_Stream") -> None:
        if stream in self._running:
            self._running.remove(stream)
            self._ended += stream.counts
            stream.close()


class _Stream:
    """One video on its way: its control and runner, the pass that it waits for, and the time that its passes took."""

    def __init__(self, streamer: Streamer, video: Video, graphs: Graphs | None) -> None:
        self.video = video
        self.source = video.frames if isinstance(video.frames, Sequence) else iter(video.frames)
        self.request: Pass | None = None
        self.inputs: Inputs | None = None
        self._checkpoint, self._sayings = streamer.checkpoint, streamer.sayings
        self._config = streamer.config if video.fps is None else replace(streamer.config, fps=video.fps)
        self._slot = graphs.arena.take(video.cache) if graphs else None
        self.runner = Runner(
            self._checkpoint.model,
            self._config,
            frames=self.source,
            never=self._checkpoint.prompt.suppress_tokens,
            silent_id=self._checkpoint.silent_id,
            cache=self._slot or video.cache,
        )
        self._steering: Steering | None = None
        self._steps = self._steer()
        self._spent_ms: defaultdict[int, float] = defaultdict(float)
        self._first_token_ms: dict[int, float] = {}

    @property
    def counts(self) -> PassCounts:
        """What the stream has cost so far."""
        return self._steering.counts if self._steering else PassCounts()

    def advance(self, answer: Answer) -> Generator[Streamed]:
        """Give the control its reading; yield outputs until it asks for the next pass, or for none at its end."""
        self.request = None
        try:
            while True:
                step = self._steps.send(answer)
                if isinstance(step, Pass):
                    self.inputs, self.request = self.runner.look_up(step.feed), step
                    return
                answer = self.runner.times(step) if isinstance(step, Frames) else None
                if isinstance(step, FrameOutput):
                    yield Streamed(video_id=self.video.video_id, output=self._timed(step))
        except StopIteration:
            if self._steering is None or not self.video.is_traced:
                yield Streamed(video_id=self.video.video_id)
            else:
                trace, cache = self._steering.ahead.trace, self.runner.cache.detached()
                yield Streamed(video_id=self.video.video_id, trace=trace, cache=cache)
        except (EngineError, ValueError) as error:
            yield Streamed(video_id=self.video.video_id, error=error)

    def spend(self, elapsed_ms: float) -> None:
        """Share the time of a pass equally between the frames that it served."""
        assert self.request is not None
        for frame in self.request.frames:
            self._spent_ms[frame] += elapsed_ms / len(self.request.frames)
        if self.request.pick_at:
            self._first_token_ms.setdefault(self.request.frames[0], round(elapsed_ms, 3))

    def close(self) -> None:
        """End the stream, close its frames and give back its place."""
        self._steps.close()
        if self._slot is not None:
            self._slot.arena.give_back(self._slot)
        if isinstance(self.source, Generator):
            self.source.close()

    def _steer(self) -> Control:
        self._steering = Steering(
            self.video.task,
            config=self._config,
            script=self._checkpoint.prompt,
            tokens_per_frame=self._checkpoint.model.tokens_per_frame,
            sayings=self._sayings,
            past=self.video.past,
            is_traced=self.video.is_traced,
        )
        yield from self._steering.run()

    def _timed(self, output: FrameOutput) -> FrameOutput:
        return replace(
            output,
            latency_ms=round(self._spent_ms.pop(output.frame_index, 0.0), 3),
            first_token_ms=self._first_token_ms.pop(output.frame_index, None),
        )


def _run_together(streams: Sequence[_Stream], graphs: Graphs | None) -> list[Reading]:
    """Run the passes that the streams wait for as one; its time is shared equally."""
    began = time.perf_counter()
    inputs = [stream.inputs for stream in streams if stream.inputs is not None]
    requests = [stream.request for stream in streams if stream.request is not None]
    readings = run_together([stream.runner for stream in streams], inputs, requests, graphs=graphs)
    elapsed_ms = (time.perf_counter() - began) * 1000
    for stream in streams:
        stream.spend(elapsed_ms / len(streams))
    return readings
