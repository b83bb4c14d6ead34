"""Requests that the controller of a stream yields, and the results that a runner sends back. No torch, no model."""

from collections.abc import Generator
from dataclasses import dataclass

from stepscope.engine.records import FrameOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTimesRequest:
    """Request the times of up to ``max_frames`` frames from ``first`` on; fewer come back at the end of the video."""

    first: int
    max_frames: int
    may_wait: bool = True
    """Whether the runner may wait for a frame of a live source; otherwise it returns the frames that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextProgress:
    """The response of a frame as far as it is generated; the answer is None."""

    frame_index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Placeholder for the image tokens of one frame in the inputs of a forward pass."""

    frame_index: int


Piece = int | Image
"""One input of a forward pass: a token id, or an image that expands to ``tokens_per_frame`` tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The two probabilities at one position."""

    speak_prob: float
    update_prob: float
    answers: tuple[float, ...] = ()
    """Probability of yes for each question about an update, or of each state; empty for other sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Tokens behind a position of a pass, of a question or a state. They see the context up to there and themselves."""

    position: int
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardRequest:
    """Request one forward pass: crop the cache, feed the inputs, read decisions and tokens.

    Positions count tokens of this pass from 0. With two tokens per frame, the inputs ``(7, Image(0), 9)`` take the
    positions 0, 1-2 and 3. A decision at the image is read at its last token, position 2.
    """

    num_cached: int
    """Cached tokens to keep; the cache is cropped to this length first."""
    inputs: tuple[Piece, ...]
    frames: range
    """Frames that this pass serves; its time is shared between them."""
    decision_positions: tuple[int, ...] = ()
    """Positions at which the decisions are read, ascending."""
    sample_positions: tuple[int, ...] = ()
    """Positions at which the next token is sampled, ascending."""
    sample_steps: tuple[int, ...] = ()
    """For each of ``sample_positions``, the tokens of a reply before the sampled one; -1 outside a reply."""
    branches: tuple[Branch, ...] = ()
    """Questions or states, in the order of their positions; the cache does not keep them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardResult:
    """Result of a ``ForwardRequest``."""

    decisions: tuple[Decision, ...] = ()
    tokens: tuple[int, ...] = ()
    answers: tuple[float, ...] = ()
    """For each of ``branches``, the probability of yes, or the log-probability of the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictRequest:
    """Request to drop the middle of the KV cache; the answer is None.

    Example: with ``num_cached`` = 10, ``head`` = 3 and ``tail`` = 4, the tokens 3, 4 and 5 are dropped.
    """

    num_cached: int
    """Cached tokens; the cache is cropped to this length first."""
    head: int
    tail: int
    renumbers: bool
    """Whether the last tokens get the positions after the first ones; otherwise their keys keep the old ones."""

    @property
    def num_kept(self) -> int:
        """Tokens that are kept."""
        return self.head + self.tail


Request = FrameTimesRequest | ForwardRequest | EvictRequest | TextProgress
Answer = tuple[float, ...] | ForwardResult | None
"""Frame times in seconds, the result of a forward pass, or None after any other message."""
ControlLoop = Generator[Request | FrameOutput, Answer, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCounts:
    """Cost of streaming so far."""

    passes: int = 0
    tokens: int = 0
    """Tokens fed, including those that were cropped later."""
    drafted: int = 0
    """Draft tokens of updates and responses that were fed."""
    accepted: int = 0
    """Draft tokens that were equal to the model's own."""

    @property
    def acceptance_rate(self) -> float:
        """Accepted share of the draft tokens, in [0, 1]; nan when none was drafted."""
        return self.accepted / self.drafted if self.drafted else float("nan")

    def __add__(self, other: "PassCounts") -> "PassCounts":
        return PassCounts(
            passes=self.passes + other.passes,
            tokens=self.tokens + other.tokens,
            drafted=self.drafted + other.drafted,
            accepted=self.accepted + other.accepted,
        )
