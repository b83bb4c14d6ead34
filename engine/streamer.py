"""Streams videos: connects the controller of each one to its runner. All callers stream through ``Streamer``."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.drafter import ResponseMemory
from stepscope.engine.control.requests import Answer, PassCounts, TextProgress
from stepscope.engine.control.task import Task
from stepscope.engine.inference.cuda_graphs import CudaGraphRunner
from stepscope.engine.inference.readout import make_readout_spec
from stepscope.engine.model.attention import has_fixed_rotation
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.records import FrameOutput
from stepscope.engine.stream import ActiveStream, StreamEvent, StreamRequest, forward_streams


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
                # Schedule: the next videos take the free rows. All are opened, so that all decode, before the first
                # waits for a frame. One that ends without a pass makes room for another; None is none available yet.
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
                results = forward_streams(streams, graph_runner)
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
