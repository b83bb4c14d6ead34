"""Records of frames on their way through a live session, and the status of the session."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, GapReason, unknown_output

SessionState = Literal["connecting", "running", "reconnecting", "ended", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledFrame:
    """A frame that was sampled from the source."""

    grid_index: int
    """Index of its instant: ``floor(time_s * fps)``. Instants without a picture leave gaps."""
    captured_s: float
    """When it arrived, on the clock of the session."""
    image: np.ndarray
    """uint8 RGB, resized for the vision tower."""
    questions: tuple[str, ...] = ()
    """Questions to answer at this frame."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedFrame:
    """A frame with its features."""

    sampled: SampledFrame
    features: FrameFeatures
    encode_began_s: float
    encode_ended_s: float

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions to answer at this frame."""
        return self.sampled.questions


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTiming:
    """The times of a decided frame on the clock of the session, in seconds."""

    captured_s: float
    encode_began_s: float
    encode_ended_s: float
    model_began_s: float
    """When the model took the frame."""
    decided_s: float

    @property
    def lag_s(self) -> float:
        """Seconds from the arrival of the picture to its decision."""
        return self.decided_s - self.captured_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStatus:
    """The status of a live session."""

    state: SessionState
    problem: str
    """Why the session failed; empty otherwise."""
    time_s: float
    """Time of the last decided frame from the first picture, in seconds."""
    num_sampled: int
    num_decided: int
    num_dropped: int
    """Sampled frames that a full queue dropped."""
    num_not_reached: int
    """Sampled frames that the session ended before the model reached them; 0 while it runs."""
    num_without_picture: int
    """Instants without a picture, up to the last sampled frame."""
    lag_s: float
    """Seconds from the arrival of the last decided picture to its decision; nan before the first one."""
    real_time_factor: float
    """Seconds that the slower one of encoder and model takes for a second of video; nan before the first decision."""
    on_time_share: float
    """Share of the decided and dropped frames that were decided in time, in [0, 1]; nan before the first."""

    @property
    def sentence(self) -> str:
        """The state in words; empty while the session runs, and at its end."""
        if self.problem:
            return self.problem
        if self.num_decided == 0:
            start = {"connecting": "Connecting.", "ended": "Ended without a frame."}
            return start.get(self.state, "Waiting for the first decision.")
        return "The connection was lost; connecting again." if self.state == "reconnecting" else ""

    def describe(self) -> str:
        """Return the status as one line."""
        if self.num_decided == 0:
            return self.sentence
        rarely = {"without a picture": self.num_without_picture, "not reached at the end": self.num_not_reached}
        numbers = (
            f"{format_count(self.num_decided, 'frame')} decided, {self.num_dropped} dropped, "
            + "".join(f"{count} {words}, " for words, count in rarely.items() if count)
            + f"lag {self.lag_s:.2f} s, real-time factor {self.real_time_factor:.2f}, on time {self.on_time_share:.0%}."
        )
        return f"{self.sentence} {numbers}".strip()


def make_gap(
    index: int, *, fps: float, before: FrameOutput | None, initial: dict[str, str], reason: GapReason = "dropped"
) -> FrameOutput:
    """Return the output of an instant without a decision: the steps as before, and the reason as ``state``."""
    state, cache_tokens = (before.dst_state, before.cache_tokens) if before else (initial, 0)
    return replace(unknown_output(index, fps=fps, dst_state=dict(state)), cache_tokens=cache_tokens, state=reason)
