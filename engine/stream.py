"""Streams videos: connects the controller of each one to its runner. All callers stream through ``Streamer``."""

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.controller import StreamController
from stepscope.engine.control.draft_buffer import Trace
from stepscope.engine.control.drafter import ResponseMemory
from stepscope.engine.control.intervention import Intervention
from stepscope.engine.control.requests import (
    Answer,
    ControlLoop,
    EvictRequest,
    ForwardRequest,
    ForwardResult,
    FrameTimesRequest,
    PassCounts,
    TextProgress,
)
from stepscope.engine.control.speculator import PriorRun
from stepscope.engine.control.task import Task
from stepscope.engine.errors import EngineError
from stepscope.engine.inference.cuda_graphs import CudaGraphRunner
from stepscope.engine.inference.readout import ReadoutSpec, make_readout_spec
from stepscope.engine.inference.runner import Runner, forward_batch
from stepscope.engine.inference.static import Inputs
from stepscope.engine.model.attention import has_fixed_rotation
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.model.kv_cache import KVCache
from stepscope.engine.records import FrameOutput, check_probs, is_decision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamRequest:
    """One video to stream."""

    video_id: str
    """Copied to the events of the video."""
    features: Iterable[FrameFeatures]
    task: Task = field(default_factory=Task)
    fps: float | None = None
    """Sampled frames per second, if not those of the configuration."""
    config: StreamConfig | None = None
    """Settings, if not those of the streamer; only frame rate and thresholds may differ."""
    prior_run: PriorRun | None = None
    """An earlier run of the video, which this one branches from; see ``engine.replay``."""
    intervention: Intervention = field(default_factory=Intervention)
    """What it does differently. Its task and its settings are ``task`` and ``config`` here; a task that holds from a
    later frame is read from it. With pictures of other frames, ``features`` must be a sequence."""
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
    trace: Trace | None = None
    cache: KVCache | None = None
    counts: PassCounts | None = None
    """Cost of the stream, at its end; a pass of many videos counts for each of them."""


class ActiveStream:
    """One video under way: its controller and runner, the request that it waits for, and the times of its passes."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: StreamConfig,
        video: StreamRequest,
        *,
        memory: ResponseMemory,
        readout_spec: ReadoutSpec,
        graph_runner: CudaGraphRunner | None,
    ) -> None:
        self.video = video
        self.source = video.features if isinstance(video.features, Sequence) else iter(video.features)
        self.request: ForwardRequest | None = None
        self.inputs: Inputs | None = None
        self._checkpoint, self._memory = checkpoint, memory
        config = video.config or config
        self._config = config if video.fps is None else replace(config, fps=video.fps)
        self._slot = graph_runner.cache_pool.acquire(video.cache) if graph_runner else None
        self.runner = Runner(
            self._checkpoint.model,
            self._config,
            features=self.source,
            keeps_all=video.prior_run is not None,  # a context of the earlier run may be fed again
            readout_spec=readout_spec,
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
                        check_probs(message, decides_at=self._config.decides_at)
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
            tokens_per_frame=self.runner.count_frame_tokens(),
            memory=self._memory,
            prior_run=self.video.prior_run,
            intervention=self.video.intervention,
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
                self._controller.frames.add_question(frame, text)
        self.runner.new_questions.clear()
        return times

    def _add_times(self, output: FrameOutput) -> FrameOutput:
        first_token_ms = self._first_token_ms.pop(output.frame_index, None)
        has_text = is_decision(output)  # else the token was that of a silence
        return replace(
            output,
            latency_ms=round(self._spent_ms.pop(output.frame_index, 0.0), 3),
            first_token_ms=first_token_ms if has_text else None,
        )


def _forward_streams(streams: Sequence[ActiveStream], graph_runner: CudaGraphRunner | None) -> list[ForwardResult]:
    """Run the waiting requests of all streams as one pass; its time is shared equally between the streams."""
    began = time.perf_counter()
    inputs = [stream.inputs for stream in streams if stream.inputs is not None]
    requests = [stream.request for stream in streams if stream.request is not None]
    results = forward_batch([stream.runner for stream in streams], inputs, requests, graph_runner=graph_runner)
    elapsed_ms = (time.perf_counter() - began) * 1000
    for stream in streams:
        stream.add_pass_time(elapsed_ms / len(streams))
    return results


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
        self._num_passes = 0
        self._ended_counts = PassCounts()
        self._active = list[ActiveStream]()
        if self.config.max_seq_len > checkpoint.model.max_context:
            raise ValueError(
                f"max_seq_len is {self.config.max_seq_len}, but the model has positions for "
                f"{checkpoint.model.max_context} tokens; lower it"
            )
        if self.config.context_strategy == "sink-window" and not has_fixed_rotation(checkpoint.model.text_model):
            raise ValueError("sink-window needs a model whose rotary embedding does not depend on the length")
        self.readout_spec = make_readout_spec(checkpoint, self.config)

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
        streams = list[ActiveStream]()
        try:
            while True:
                # Schedule: the next videos take the free rows, up to a None: no further video is available yet.
                # All are opened before the first waits for a frame, so that all decode at once. A video that ends
                # before its first pass makes room for another.
                has_ended = True
                while has_ended:
                    num_old = len(streams)
                    for video in islice(iter(partial(next, queue, None), None), max_batch_size - num_old):
                        streams.append(self._open(video, graph_runner))
                    new = streams[num_old:]
                    yield from self._advance(new, [None] * len(new))
                    has_ended = not all(stream.request for stream in new)
                    streams = [stream for stream in streams if stream.request]
                if not streams:
                    return
                # Run: one pass for the requests of all streams.
                self._num_passes += 1
                results = _forward_streams(streams, graph_runner)
                # Postprocess: each stream takes its result, up to its next request or its end.
                yield from self._advance(streams, results)
                streams = [stream for stream in streams if stream.request]
        finally:
            for stream in streams:
                self._end(stream)

    def _open(self, video: StreamRequest, graph_runner: CudaGraphRunner | None) -> ActiveStream:
        stream = ActiveStream(
            self.checkpoint,
            self.config,
            video,
            memory=self.memory,
            readout_spec=self.readout_spec,
            graph_runner=graph_runner,
        )
        self._active.append(stream)
        return stream

    @property
    def counts(self) -> PassCounts:
        """Cost of all runs so far, unfinished ones included; a pass of many streams counts once."""
        total = sum((stream.counts for stream in self._active), self._ended_counts)
        return replace(total, passes=self._num_passes)

    @property
    def cache_tokens(self) -> int:
        """Tokens in the KV caches of all streams under way."""
        return sum(stream.runner.cache.length for stream in self._active)

    def _advance(self, streams: Sequence[ActiveStream], answers: Sequence[Answer]) -> Generator[StreamEvent]:
        """Send each stream its answer; yield the events, and end the streams that request nothing more."""
        for stream, answer in zip(streams, answers, strict=True):
            yield from stream.advance(answer)
            if stream.request is None:
                self._end(stream)

    def _end(self, stream: ActiveStream) -> None:
        if stream in self._active:
            self._active.remove(stream)
            self._ended_counts += stream.counts
            stream.close()
