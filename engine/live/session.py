"""A live session: capture, encoder and model in one thread each, connected by bounded queues.

The encoder works on later frames while the model decides, as in VideoLLM-online. The model's thread drives the one
``Streamer`` over an iterator without an end. Frames that wait are fed in one pass, which is exact (look-ahead). When
encoder or model are too slow, the queues drop frames (``engine.live.frames``), and the session counts them.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Final

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.requests import TextProgress
from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import initial_state
from stepscope.engine.errors import VideoError, first_line
from stepscope.engine.live.capture import Capture, OnPicture
from stepscope.engine.live.frames import (
    EncodedFrame,
    FrameQueue,
    LiveStatus,
    ModelFrames,
    SampledFrame,
    SessionState,
    make_gap,
)
from stepscope.engine.live.questions import AskedQuestions
from stepscope.engine.live.sources import Clock, LiveSource
from stepscope.engine.live.statistics import LiveStatistics
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.model.features.frame_encoder import FrameFeatures, FrameResizer, encode_images
from stepscope.engine.records import Forgotten, FrameOutput, UserTurn, check_probs
from stepscope.engine.stream import Streamer, StreamRequest
from stepscope.engine.video.network import mask_password

MAX_JOIN_S: Final = 15.0
"""Maximum wait for a thread at the end; a read from a network stream ends within its time limit."""
OnOutput = Callable[[FrameOutput], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """Limits of a live session."""

    queue_frames: int = 4
    """Frames that may wait before the encoder, and before the model."""
    on_time_s: float = 1.0
    """Maximum lag of a frame that counts as decided in time, in seconds."""
    stall_s: float = 30.0
    """Maximum time without a picture, in seconds; a lost connection is tried again meanwhile."""


class LiveSession:
    """Streams a live source until it ends, fails or is stopped.

    An instant without a decision gets an output without probabilities, whose ``state`` is the ``GapReason``. So output
    ``i`` is always the instant ``i / fps``. ``on_output`` is called in the model's thread for each output, in order;
    ``on_picture`` in the capture thread for each sampled frame, and ``on_question`` there for each question, at the
    time of its frame.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        source: LiveSource,
        *,
        task: Task | None = None,
        config: StreamConfig | None = None,
        options: LiveOptions | None = None,
        clock: Clock | None = None,
        on_output: OnOutput | None = None,
        on_picture: OnPicture | None = None,
        on_question: Callable[[UserTurn], None] | None = None,
    ) -> None:
        self.task, self.source = task or Task(), source
        self.config, self.options, self._clock = config or StreamConfig(), options or LiveOptions(), clock or Clock()
        self._checkpoint, self._on_output = checkpoint, on_output
        self._streamer = Streamer(checkpoint, self.config)
        self.statistics = counts = LiveStatistics(fps=self.config.fps, on_time_s=self.options.on_time_s)
        self._sampled: FrameQueue[SampledFrame] = FrameQueue(
            self.options.queue_frames, on_drop=lambda frame: counts.add_dropped(frame.grid_index)
        )
        self._encoded: FrameQueue[EncodedFrame] = FrameQueue(
            self.options.queue_frames, on_drop=lambda frame: counts.add_dropped(frame.sampled.grid_index)
        )
        self.asked = AskedQuestions(fps=self.config.fps, on_taken=on_question)
        self.capture = Capture(
            source,
            self._sampled,
            fps=self.config.fps,
            resize=FrameResizer(checkpoint.model).resize,
            clock=self._clock,
            stall_s=self.options.stall_s,
            asked=self.asked,
            may_sample=counts.add_sampled,
            on_picture=on_picture,
        )
        self.text_progress: TextProgress | None = None
        """The response that is being generated, with the index of its instant."""
        self.on_text: Callable[[TextProgress], None] | None = None
        """Called in the model's thread after each token of a response."""
        self.problem = ""
        """Why the session failed; empty otherwise."""
        self.ended = Event()
        """Set after the last output."""
        self._initial = initial_state(self.task.steps, self.task.initial_state)
        self._last: FrameOutput | None = None
        self._decided = array("Q")
        """The instants of the decided frames, by their number in the stream."""
        self._stopped = Event()
        self._threads = [
            Thread(target=self._guard, args=(work,), name=f"live-{name}", daemon=True)
            for name, work in (("capture", self._capture), ("encode", self._encode), ("model", self._decide))
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def ask(self, text: str) -> None:
        """Ask a question, which is answered at the next frame. Raises ``ValueError`` if it cannot be asked."""
        if self._stopped.is_set() or self.ended.is_set():
            raise ValueError("the session has ended; press Start first")
        self.asked.ask(text)

    def stop(self) -> None:
        """End the session; frames that wait are dropped. Waits for the threads."""
        self._stop()
        for thread in reversed(self._threads):
            if thread.ident is not None:
                thread.join(timeout=MAX_JOIN_S)

    def check(self) -> None:
        """Fail the session if its source has stalled; to be called about once a second."""
        if self.capture.is_stalled and not self.ended.is_set() and not self._stopped.is_set():
            limit_s = self.options.stall_s
            self._fail(
                VideoError(f"{self.source.name}: no picture for {limit_s:.0f} s; check the source, then start again")
            )

    @property
    def status(self) -> LiveStatus:
        """The present status."""
        time_s = self._last.time_s if self._last else 0.0
        return self.statistics.describe(self._state(), problem=self.problem, time_s=time_s)

    def _state(self) -> SessionState:
        if self.problem:
            return "failed"
        if self.ended.is_set():
            return "ended"
        if self.capture.num_sampled == 0:
            return "connecting"
        return "reconnecting" if self.capture.is_reconnecting else "running"

    def _guard(self, work: Callable[[], None]) -> None:
        """Run the work of a thread; an error ends the session with one sentence."""
        try:
            work()
        except Exception as error:  # it is reported to the owner of the session
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.problem = self.problem or mask_password(first_line(error))
        self._stop()

    def _stop(self) -> None:
        self._stopped.set()
        self._sampled.close(drop_waiting=True)
        self._encoded.close(drop_waiting=True)

    def _capture(self) -> None:
        try:
            self.capture.run(self._stopped)
        finally:
            self._sampled.close()

    def _encode(self) -> None:
        try:
            while frames := self._sampled.take(self.options.queue_frames):
                began = self._clock.now()
                features = encode_images(self._checkpoint, [frame.image for frame in frames], are_resized=True)
                encode_s = (self._clock.now() - began) / len(frames)
                for frame, feature in zip(frames, features, strict=True):
                    time_s = frame.grid_index / self.config.fps
                    encoded = FrameFeatures(index=0, time_s=time_s, features=feature.clone(), questions=frame.questions)
                    self._encoded.put(EncodedFrame(sampled=frame, features=encoded, encode_s=encode_s))
        finally:
            self._encoded.close()

    def _decide(self) -> None:
        try:
            self._guard(self._stream)
            self.statistics.close()
            # On a full disk this fails as the outputs did. The first problem is kept, and the session has to end.
            self._guard(lambda: self._fill_gaps(self.statistics.last_index + 1))
        finally:
            self.ended.set()

    def _stream(self) -> None:
        frames = ModelFrames(self._encoded, self._clock)
        request = StreamRequest(video_id="", features=frames, task=self.task, reports_text=True)
        for event in self._streamer.run_many([request], max_batch_size=1):
            if event.error is not None:
                raise event.error
            if event.text_progress is not None:
                index = frames.in_flight[0].sampled.grid_index
                self.text_progress = replace(event.text_progress, frame_index=index)
                if self.on_text is not None:
                    self.on_text(self.text_progress)
            if event.output is not None:
                self._add(check_probs(event.output, decides_at=self.config.decides_at), frames)

    def _add(self, output: FrameOutput, frames: ModelFrames) -> None:
        """Count a decided frame, and report its output under the index of its instant."""
        frame, now = frames.in_flight.popleft(), self._clock.now()
        index, lag_s = frame.sampled.grid_index, now - frame.sampled.captured_s
        self._decided.append(index)
        self._fill_gaps(index)
        self._report(replace(output, frame_index=index, forgotten=self._place(output.forgotten)))
        self.text_progress = None
        self.statistics.add(index, lag_s=lag_s, encode_s=frame.encode_s, model_s=frames.take_busy_s(now))

    def _place(self, forgotten: Forgotten | None) -> Forgotten | None:
        """Return a forgotten part under the indices of its instants: the stream numbers frames without the gaps."""
        if forgotten is None or forgotten.first_frame is None or forgotten.last_frame is None:
            return forgotten
        first, last = self._decided[forgotten.first_frame], self._decided[forgotten.last_frame]
        return replace(forgotten, first_frame=first, last_frame=last)

    def _fill_gaps(self, end: int) -> None:
        """Report the instants before ``end`` that have no decision, each with its reason."""
        first = self._last.frame_index + 1 if self._last else 0
        for index in range(first, end):
            reason = self.statistics.take_reason(index)
            self._report(make_gap(index, fps=self.config.fps, before=self._last, initial=self._initial, reason=reason))

    def _report(self, output: FrameOutput) -> None:
        if self._on_output is not None:
            self._on_output(output)
        self._last = output  # only now: an instant whose output was not written is a gap
