"""State of a browser window: its video, and its run from the click on Run to its end; and the cache of recordings.

A recording holds the frame embeddings and the KV cache of a run, so that a re-run with new thresholds computes only the
difference. Without a recording, the video is encoded again with identical results.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

from stepscope.app.core.run import Run
from stepscope.app.core.videos import Clip
from stepscope.engine.config import Thresholds
from stepscope.engine.live.questions import AskedQuestions
from stepscope.engine.records import FrameOutput, UserTurn
from stepscope.engine.replay import Recording

if TYPE_CHECKING:
    from stepscope.app.window.increments import StreamIncrements

MAX_FRAME_S = 60.0
"""Maximum wait for a cancelled run to end, in seconds: one forward pass of a slow model."""


@dataclass(slots=True, kw_only=True, weakref_slot=True)
class Cancellable:
    """Queued or running work of a window that can be cancelled."""

    is_started: bool = False
    """Whether it has left the queue."""
    is_cancelled: bool = False
    """Whether it must end at its next frame, or not start at all."""
    ended: Event = field(default_factory=Event)

    def stop(self) -> None:
        """Cancel the work, and wait until it has ended if it was started."""
        self.is_cancelled = True
        if self.is_started:
            self.ended.wait(timeout=MAX_FRAME_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuestion:
    """A question to a finished run, which is streamed again with it."""

    turn: UserTurn
    """The question, at the time of its frame."""
    run: Run
    """The run to stream: without outputs, its task has the question."""
    known: Sequence[FrameOutput]
    """The outputs of the finished run, which serve as drafts."""
    recording: Recording | None
    """The recording of the finished run, if it is kept."""


@dataclass(slots=True, kw_only=True)
class PlannedBranch:
    """A branch of a run, with its changes as text; see ``app.player.branches``."""

    changes: str
    beside: Run | None = None
    """The run that is shown below it, by default the run that it differs from."""
    recording: Recording | None = None
    """The recording of the run that it differs from, once that is made again."""


@dataclass(slots=True, kw_only=True)
class LiveRun(Cancellable):
    """The run of a window, from the click on Run to its end. The streaming thread updates it."""

    run: Run | None = None
    """The run; None before it starts, and without outputs while it streams."""
    increments: "StreamIncrements | None" = None
    recording: Recording | None = None
    """Cached features and KV cache for fast re-runs with new thresholds; None if it is too large or was evicted."""
    other: Run | None = None
    """A second run of the video, whose lanes are shown below."""
    linked_digest: str | None = None
    """Digest of the run in the link that was opened."""
    requested: Thresholds | None = None
    """Thresholds of the window's latest request, which ``run`` may not have yet; None before the first request."""
    asked: AskedQuestions | None = None
    """The questions that were asked while it streams; None before it starts."""
    question: PlannedQuestion | None = None
    """The question to an earlier run that this run answers; None for a run of its own."""
    branch: PlannedBranch | None = None
    """The branch to make of ``run``, or the one that it is."""
    ticket: int = 0
    """Number of the latest request, counted by the window."""

    @classmethod
    def finished(cls, run: Run, *, other: Run | None = None, recording: Recording | None = None) -> Self:
        """Return a live run that has ended."""
        live = cls(run=run, other=other, recording=recording, is_started=True)
        live.ended.set()
        return live

    def drop_recordings(self) -> None:
        """Release the memory of its recordings."""
        self.recording = None
        if self.branch is not None:
            self.branch.recording = None


@dataclass(slots=True, kw_only=True)
class Window:
    """State of one browser window; its ``gr.State`` is an input of all its events.

    Some of them run at once, such as a run that streams and a click on another video. So no handler sets a field: it
    returns those that it changes by their names, as in ``PlayerView(status="Done.", live=run)``, and ``widgets.wire``
    sets these alone. Gradio never writes the state: it would put back the other fields as they were.
    """

    clip: Clip | None = None
    """The video, which *Run* streams; None without one."""
    live: LiveRun | None = None
    """The run, from the click on *Run*; None without one."""

    @property
    def run(self) -> Run | None:
        """The displayed run, without outputs while it streams."""
        live = self.live
        return live.run if live is not None else None

    def find_finished(self, use: str) -> tuple[LiveRun, Run]:
        """Return the displayed run, ended and with frames. Raises ``ValueError`` without one to ``use``."""
        if (live := self.live) is None or (run := live.run) is None or not run.outputs or not live.ended.is_set():
            raise ValueError(f"there is no finished run to {use}; press Run and wait until it ends")
        return live, run

    def take(self, updates: dict[str, Any]) -> None:
        """Move the fields of the window out of the updates of an event into it; a run that is replaced ends."""
        before = self.live
        for name in updates.keys() & {"clip", "live"}:
            setattr(self, name, updates.pop(name))
        if before is not None and before is not self.live:
            before.is_cancelled = True
            if self.live is None or self.live.is_started:
                before.stop()  # so that no update of it comes after those of this event


DEFAULT_BUDGET_BYTES = 4 * 2**30


class RecordingCache:
    """Evicts the least recently used recordings over a memory budget. Windows are held by weak references."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._kept: OrderedDict[int, tuple[ref[LiveRun], int]] = OrderedDict()
        self._lock = Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes of all cached recordings."""
        with self._lock:
            self._drop_closed()
            return sum(size for _, size in self._kept.values())

    def keep(self, live: LiveRun) -> None:
        """Mark the recording of a window as most recently used, and evict recordings until the budget is met.

        A recording that alone exceeds the budget is evicted too.
        """
        with self._lock:
            self._kept.pop(id(live), None)
            self._drop_closed()
            if live.recording is None:
                return
            self._kept[id(live)] = ref(live), live.recording.num_bytes
            while sum(size for _, size in self._kept.values()) > self._budget_bytes:
                _, (oldest, _) = self._kept.popitem(last=False)
                if (window := oldest()) is not None:
                    window.drop_recordings()

    def release(self, live: LiveRun) -> None:
        """Drop the recording of a window that was closed."""
        live.drop_recordings()
        self.keep(live)

    def _drop_closed(self) -> None:
        for key in [key for key, (window, _) in self._kept.items() if window() is None]:
            del self._kept[key]
