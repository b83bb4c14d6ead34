"""What a browser window has under way: one run, from a click on Run to its end."""

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Self

from app.player.session.run import Run
from engine import replay

if TYPE_CHECKING:
    from app.player.increments import StreamIncrements

MAX_FRAME_S = 60.0
"""Longest wait for a run to end that was told to: one pass of a slow model."""


@dataclass(slots=True, kw_only=True, weakref_slot=True)
class Cancellable:
    """Work that a window has begun and may stop, from the click to its end."""

    is_started: bool = False
    """Whether it has had its turn."""
    is_cancelled: bool = False
    """Whether it must end at its next frame."""
    ended: Event = field(default_factory=Event)
    """Set when nothing more will come."""

    def stop(self) -> None:
        """Ask it to end, and wait until nothing more can come."""
        self.is_cancelled = True
        if self.is_started:
            self.ended.wait(timeout=MAX_FRAME_S)


@dataclass(slots=True, kw_only=True)
class LiveRun(Cancellable):
    """What a window has under way, from one click on Run to its end; the thread that streams writes into it."""

    run: Run | None = None
    """The run; None before it begins, without outputs while it streams."""
    increments: "StreamIncrements | None" = None
    """The outputs so far, while it streams."""
    recording: replay.Recording | None = None
    """The run as the engine keeps it, to try other thresholds on; None when it is too large, or was given up
    for those of other windows (``app.player.session.recordings``)."""
    other: Run | None = None
    """Another run of the video, whose lanes are shown below."""
    linked_digest: str | None = None
    """Digest of the run that a link asks for."""
    requested: replay.Thresholds | None = None
    """Thresholds that the window asked for last, which ``run`` may not have yet; None before it asked for any."""
    ticket: int = 0
    """Number of that request; the window counts."""

    @classmethod
    def finished(cls, run: Run, *, other: Run | None = None, recording: replay.Recording | None = None) -> Self:
        """Return a run that has ended."""
        live = cls(run=run, other=other, recording=recording, is_started=True)
        live.ended.set()
        return live
