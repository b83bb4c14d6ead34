"""The records that leave the engine, as plain values, and their form on disk.

A run file is JSON lines, one ``FrameOutput`` per line, and is there whole or not at all. Predictions live
here; references (``Sample``, ``Turn``) live in ``eval`` and never share a record with them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import EngineError
from engine.io import atomic_write, to_json
from engine.json_records import Amount, AmountOrNan, Count, ProbOrNan, check_regular, parse_record

_EPSILON = 1e-6  # of a frame: 1.16 s * 25 fps is 28.999...
_MAY_BE_UNKNOWN = ("speak_prob", "update_prob", "latency_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the task."""

    id: str
    """Name of the step in updates, such as ``S3``."""
    name: str
    """What is done, such as ``attach the wheel``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """Something that the user says during the stream."""

    time_s: float
    """Seconds from the start of the video."""
    text: str
    """The words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A part of a video file, read as a video of its own."""

    start_s: float
    """Seconds of the file at which it starts, at least 0."""
    num_frames: int
    """Sampled frames, at least 1."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a start or a number of frames out of range."""
        if not (math.isfinite(self.start_s) and self.start_s >= 0):
            raise ValueError(f"an excerpt must start at 0 s or later, not at {self.start_s} s")
        if self.num_frames < 1:
            raise ValueError(f"an excerpt must have at least 1 frame, not {self.num_frames}")


def frame_at(time_s: float, fps: float) -> int:
    """Return the frame of a turn, ``floor(time_s * fps)``, whatever rounding does to the product."""
    return math.floor(time_s * fps + _EPSILON)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOutput:
    """What the assistant decided, wrote and believed at one frame."""

    frame_index: Count
    """Index of the sampled frame, from 0."""
    time_s: Amount
    """True time of the frame in the video, in seconds."""
    speak_prob: ProbOrNan
    """Probability of speaking, read at the last image token, in [0, 1]; nan where an imported system does not tell."""
    update_prob: ProbOrNan
    """Probability of a state update, read at the last image token, in [0, 1]; nan as above."""
    response: str | None
    """The sentence to the user; None when the assistant stayed silent."""
    updates: tuple[str, ...]
    """Update texts as written, such as ``S3->complete``; malformed ones too."""
    dst_state: Mapping[str, str]
    """State of every step after this frame: not_started, in_progress or completed."""
    cache_tokens: Count
    """Tokens in the context after this frame."""
    refreshed: bool
    """Whether the context was full and this frame began anew from the schema prompt."""
    latency_ms: AmountOrNan
    """Time of the model passes spent on this frame, a pass over many frames shared equally; nan as above."""
    first_token_ms: Amount | None = None
    """Time from the decision to write to the first token written at this frame; None when nothing was written."""

    def to_json(self) -> str:
        """Return the record as one line of JSON, in which nan is null."""
        record = asdict(self)
        for name in _MAY_BE_UNKNOWN:
            if math.isnan(record[name]):
                record[name] = None
        return to_json(record)

    @classmethod
    def from_json(cls, line: str) -> "FrameOutput":
        """Read one line of JSON. Raises ``ValueError`` naming the field that is missing, unknown or of another kind."""
        return parse_record(cls, line)


def check_probs(output: FrameOutput) -> FrameOutput:
    """Return the output. Raises ``EngineError`` where the model gave the probability nan, and so decides nothing."""
    if math.isnan(output.speak_prob) or math.isnan(output.update_prob):
        raise EngineError(
            f"frame {output.frame_index} has the probability nan: the weights are damaged, or their number format too "
            "short; choose another checkpoint or dtype"
        )
    return output


def write_outputs(path: Path, outputs: Iterable[FrameOutput]) -> int:
    """Write a run file as the outputs come, whole or not at all. Returns the number of frames."""
    count = 0
    with atomic_write(path) as file:
        for output in outputs:
            file.write(output.to_json() + "\n")
            count += 1
    return count


def read_outputs(path: Path) -> tuple[FrameOutput, ...]:
    """Read a run file. Raises ``FileNotFoundError``, and ``ValueError`` naming the line that cannot be read."""
    outputs: list[FrameOutput] = []
    try:
        check_regular(path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error
    try:
        for _, line in numbered_lines(path):
            outputs.append(FrameOutput.from_json(line))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}, line {len(outputs) + 1}: {error}") from error
    return tuple(outputs)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read JSON lines, numbered from 1. Only a newline ends a line: texts may hold other separators."""
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from enumerate(file, start=1)
