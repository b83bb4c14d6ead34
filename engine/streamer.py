"""Streams videos: connects the controller of each one to its runner. All callers stream through ``Streamer``."""

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice, repeat

from engine.config import StreamConfig
from engine.control.controller import StreamController
from engine.control.draft_buffer import Trace
from engine.control.drafter import ResponseMemory
from engine.control.requests import (
    Answer,
    ControlLoop,
    EvictRequest,
    ForwardRequest,
    ForwardResult,
    FrameTimesRequest,
    PassCounts,
    TextProgress,
)
from engine.control.speculator import PriorRun
from engine.control.task import Task
from engine.errors import EngineError
from engine.inference.cuda_graphs import CudaGraphRunner
from engine.inference.readout import make_readout_spec
from engine.inference.runner import Runner, forward_batch
from engine.inference.static import Inputs
from engine.model.attention import has_fixed_rotation
from engine.model.checkpoint import Checkpoint
from engine.model.features.frame_encoder import FrameFeatures
from engine.model.kv_cache import KVCache
from engine.records import FrameOutput, check_probs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamRequest:
    """One video to stream."""

    video_id: str
    """Copied to the events of the video."""
    features: Iterable[FrameFeatures]
    """The embedded frames, in order."""
    task: Task = field(default_factory=Task)
    fps: float | None = None
    """Sampled frames per second, if not those of the configuration."""
    config: StreamConfig | None = None
    """Settings, if not those of the streamer; only frame rate and thresholds may differ."""
    prior_run: PriorRun | None = None
    """An earlier run of the video with other thresholds; see ``engine.replay``."""
    cache: KVCache | None = None
    """The KV cache of that run, if its trace is given; it is consumed."""
    is_traced: bool = False
    """Whether the last event has the trace and the KV cache."""
    reports_text: bool = False
    """Whether a response is also reported token by token, by events with ``text_progress``."""
    checks_probs: bool = False
    """Whether a probability that is not a number ends the stream with an error; see ``check_probs``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """An event of one of several streamed videos: a frame output, text so far, the end, or an error."""

    video_id: str
    output: FrameOutput | None = None
    """The next frame output; None at the end."""
    text_progress: TextProgress | None = None
    """The response that is being generated, in a stream that reports it."""
    error: EngineError | ValueError | None = None
    """The error that ended the stream early."""
    trace: Trace | None = None
    """The trace, at the end of a traced stream."""
    cache: KVCache | None = None
    """The KV cache, at the end of a traced stream."""
    counts: PassCounts | None = None
    """Cost of the stream, at its end; a pass of many videos counts for each of them."""


class Streamer:
    """Streams videos through the model of a checkpoint.

    Args:
        checkpoint: A checkpoint from ``load_model``.
        config: Stream settings; ``max_seq_len`` must fit the model's positions.

    Raises:
        ValueError: A ``max_seq_len`` above the model's positions, a policy that reads a token or heads which the
            checkpoint lacks, or a context strategy that needs another rotary embedding.
    """

    def __init__(self, checkpoint: Checkpoint, config: StreamConfig | None = None) -> None:
        self.checkpoint = checkpoint
        self.config = config or StreamConfig()
        self.memory = ResponseMemory()
        self._num_passes, self._ended_counts, self._active = 0, PassCounts(), list[_ActiveStream]()
        if self.config.max_seq_len > checkpoint.model.max_context:
            raise ValueError(
                f"max_seq_len is {self.config.max_seq_len}, but the model has positions for "
                f"{checkpoint.model.max_context} tokens; lower it"
            )
        if self.config.context_strategy == "sink-window" and not has_fixed_rotation(checkpoint.model.text_model):
            raise ValueError("sink-window needs a model whose rotary embedding does not depend on the length")
        self.readout_spec = make_readout_spec(checkpoint, self.config.policy)

    def run(
        self,
        features: Iterable[FrameFeatures],
        task: Task | None = None,
        *,
        on_text: Callable[[TextProgress], None] | None = None,
    ) -> Generator[FrameOutput]:
        """Stream the frames of one video in order; yield each output as soon as it is decided.

        ``on_text`` is called after each token of a response. Closing the generator ends the stream and closes
        ``features``.

        Raises:
            ValueError: A task that contradicts itself.
            ContextError: A prompt or user turn that does not fit.
            FeatureError: Features of a different model, or that are not finite.
        """
        request = StreamRequest(video_id="", features=features, task=task or Task(), reports_text=on_text is not None)
        for event in self.run_many([request], max_batch_size=1):
            if event.error is not None:
                raise event.error
            if event.text_progress is not None and on_text is not None:
                on_text(event.text_progress)
            if event.output is not None:
                yield event.output

    def run_many(self, videos: Iterable[StreamRequest | None], *, max_batch_size: int = 16) -> Generator[StreamEvent]:
        """Stream many videos with continuous batching; yield events as they come.

        Up to ``max_batch_size`` videos share a forward pass. When one ends or fails, the next one takes its place.
        The outputs of each video are those of ``run``. An item of ``videos`` is None if no video is available yet; the
        next item is requested after the next pass, or the end of a video. While no stream is active, None ends the run.

        Raises:
            ValueError: A ``max_batch_size`` below 1. Errors of one video are events.
        """
        if max_batch_size < 1:
            raise ValueError(f"max_batch_size must be at least 1; got {max_batch_size}")
        pool = self.checkpoint.graphs
        context = nullcontext() if pool is None else pool.acquire(self.config, num_slots=max_batch_size)
        with context as graph_runner:
            yield from self._run_many(iter(videos), max_batch_size, graph_runner)

    def _run_many(
        self, queue: Iterator[StreamRequest | None], max_batch_size: int, graph_runner: CudaGraphRunner | None
    ) -> Generator[StreamEvent]:
        streams: list[_ActiveStream] = []
        try:
            while True:
                has_ended = True
                while has_ended and len(streams) < max_batch_size:
                    num_old = len(streams)
                    for video in islice(iter(lambda: next(queue, None), None), max_batch_size - num_old):
                        streams.append(_ActiveStream(self, video, graph_runner))
                        self._active.append(streams[-1])
                    new = streams[num_old:]
                    yield from self._advance(new, repeat(None))
                    has_ended = not all(stream.request for stream in new)  # the end of one may bring the next
                    streams = [stream for stream in streams if stream.request]
                if not streams:
                    return
                self._num_passes += 1
                yield from self._advance(streams, _forward_batch(streams, graph_runner))
                streams = [stream for stream in streams if stream.request]
        finally:
            for stream in streams:
                self._end(stream)

    @property
    def counts(self) -> PassCounts:
        """Cost of all runs so far, unfinished ones included; a pass of many streams counts once."""
        total = sum((stream.counts for stream in self._active), self._ended_counts)
        return replace(total, passes=self._num_passes)

    def _advance(self, streams: "Sequence[_ActiveStream]", answers: Iterable[Answer]) -> Generator[StreamEvent]:
        """Send each stream its answer; yield their events, and end those that request nothing more."""
        for stream, answer in zip(streams, answers, strict=False):
            yield from stream.advance(answer)
            if stream.request is None:
                self._end(stream)

    def _end(self, stream: "_ActiveStream") -> None:
        if stream in self._active:
            self._active.remove(stream)
            self._ended_counts += stream.counts
            stream.close()


class _ActiveStream:
    """One video under way: its controller and runner, the request that it waits for, and the times of its passes."""

    def __init__(self, streamer: Streamer, video: StreamRequest, graph_runner: CudaGraphRunner | None) -> None:
        self.video = video
        self.source = video.features if isinstance(video.features, Sequence) else iter(video.features)
        self.request: ForwardRequest | None = None
        self.inputs: Inputs | None = None
        self._checkpoint, self._memory = streamer.checkpoint, streamer.memory
        config = video.config or streamer.config
        self._config = config if video.fps is None else replace(config, fps=video.fps)
        self._slot = graph_runner.cache_pool.acquire(video.cache) if graph_runner else None
        self.runner = Runner(
            self._checkpoint.model,
            self._config,
            features=self.source,
            readout_spec=streamer.readout_spec,
            cache=self._slot or video.cache,
        )
        self._controller: StreamController | None = None
        self._loop = self._run_controller()
        self._spent_ms: defaultdict[int, float] = defaultdict(float)
        self._first_token_ms: dict[int, float] = {}

    @property
    def counts(self) -> PassCounts:
        """Cost of the stream so far."""
        return self._controller.counts if self._controller else PassCounts()

    def advance(self, answer: Answer) -> Generator[StreamEvent]:
        """Send a result to the controller; yield events up to its next forward request, or to its end."""
        self.request = None
        try:
            while True:
                message = self._loop.send(answer)
                if isinstance(message, ForwardRequest):
                    self.inputs, self.request = self.runner.gather_inputs(message.inputs), message
                    return
                answer = self._fetch_frame_times(message) if isinstance(message, FrameTimesRequest) else None
                if isinstance(message, EvictRequest):
                    self.runner.evict(message)
                if isinstance(message, TextProgress):
                    yield StreamEvent(video_id=self.video.video_id, text_progress=message)
                if isinstance(message, FrameOutput):
                    if self.video.checks_probs:
                        check_probs(message)
                    yield StreamEvent(video_id=self.video.video_id, output=self._add_times(message))
        except StopIteration:
            if self._controller is None or not self.video.is_traced:
                yield StreamEvent(video_id=self.video.video_id, counts=self.counts)
            else:
                trace, cache = self._controller.draft_buffer.trace, self.runner.cache.detached()
                yield StreamEvent(video_id=self.video.video_id, trace=trace, cache=cache, counts=self.counts)
        except (EngineError, ValueError) as error:
            yield StreamEvent(video_id=self.video.video_id, error=error)

    def add_pass_time(self, elapsed_ms: float) -> None:
        """Share the time of a pass equally between the frames that it served."""
        assert self.request is not None
        for frame in self.request.frames:
            self._spent_ms[frame] += elapsed_ms / len(self.request.frames)
        if self.request.sample_positions:
            self._first_token_ms.setdefault(self.request.frames[0], round(elapsed_ms, 3))

    def close(self) -> None:
        """End the stream, close its source of features and release its slot."""
        self._loop.close()
        if self._slot is not None:
            self._slot.pool.release(self._slot)
        if isinstance(self.source, Generator):
            self.source.close()

    def _run_controller(self) -> ControlLoop:
        # inside the generator, so that errors of the constructor become events as well
        self._controller = StreamController(
            self.video.task,
            config=self._config,
            codec=self._checkpoint.prompt,
            tokens_per_frame=self._checkpoint.model.tokens_per_frame,
            memory=self._memory,
            prior_run=self.video.prior_run,
            is_traced=self.video.is_traced,
            reports_text=self.video.reports_text,
        )
        yield from self._controller.run()

    def _fetch_frame_times(self, request: FrameTimesRequest) -> tuple[float, ...]:
        """Return the times of the next frames, and pass the questions that came with them to the controller."""
        times = self.runner.fetch_frame_times(request)
        assert self._controller is not None
        for frame, texts in self.runner.new_questions.items():
            for text in texts:
                self._controller.add_question(frame, text)
        self.runner.new_questions.clear()
        return times

    def _add_times(self, output: FrameOutput) -> FrameOutput:
        return replace(
            output,
            latency_ms=round(self._spent_ms.pop(output.frame_index, 0.0), 3),
            first_token_ms=self._first_token_ms.pop(output.frame_index, None),
        )


def _forward_batch(streams: Sequence[_ActiveStream], graph_runner: CudaGraphRunner | None) -> list[ForwardResult]:
    """Run the waiting requests of all streams as one pass; its time is shared equally between the streams."""
    began = time.perf_counter()
    inputs = [stream.inputs for stream in streams if stream.inputs is not None]
    requests = [stream.request for stream in streams if stream.request is not None]
    results = forward_batch([stream.runner for stream in streams], inputs, requests, graph_runner=graph_runner)
    elapsed_ms = (time.perf_counter() - began) * 1000
    for stream in streams:
        stream.add_pass_time(elapsed_ms / len(streams))
    return results
