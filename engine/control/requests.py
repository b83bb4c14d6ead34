"""What the control of a stream asks for, and what it is sent: frames, model passes, readings. No torch, no model."""

from collections.abc import Generator
from dataclasses import dataclass

from engine.control.policies import Decision
from engine.records import FrameOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Request: which of the frames from ``first`` on are there, ``most`` at most? Answered by their times."""

    first: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The image tokens of one frame, as a piece of a pass."""

    frame_index: int


Piece = int | Image
"""What is fed: a token id, or the tokens of an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Request: crop the cache, feed, read."""

    keep: int
    """Cached tokens to keep; the cache is cropped to this length first."""
    feed: tuple[Piece, ...]
    """Token ids and images, in order."""
    frames: range
    """Frames that this pass serves."""
    decide_at: tuple[int, ...] = ()
    """Positions, counted in tokens of this pass, at which the decisions are read."""
    pick_at: tuple[int, ...] = ()
    """Positions at which the next token is picked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Answer to a pass."""

    decisions: tuple[Decision, ...] = ()
    """One per position asked for."""
    tokens: tuple[int, ...] = ()
    """The tokens picked, one per position asked for."""


Request = Frames | Pass
Answer = tuple[float, ...] | Reading | None
Control = Generator[Request | FrameOutput, Answer, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCounts:
    """What streaming has cost so far."""

    passes: int = 0
    """Model passes."""
    tokens: int = 0
    """Tokens fed, those that were cropped again included."""
    drafted: int = 0
    """Tokens of updates and responses that were fed as a guess."""
    accepted: int = 0
    """Those that were what the model wrote."""

    @property
    def acceptance_rate(self) -> float:
        """Share of the drafted tokens that was accepted; nan when none was drafted."""
        return self.accepted / self.drafted if self.drafted else float("nan")

    def __add__(self, other: "PassCounts") -> "PassCounts":
        """Add counts up."""
        return PassCounts(
            passes=self.passes + other.passes,
            tokens=self.tokens + other.tokens,
            drafted=self.drafted + other.drafted,
            accepted=self.accepted + other.accepted,
        )
