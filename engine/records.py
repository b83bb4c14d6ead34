"""The engine's output records, as plain values, and their file format.

A run file is JSON lines, one ``FrameOutput`` per line, and is written atomically. Predictions are defined here;
references (``Sample``, ``Turn``) are defined in ``eval`` and never share a record with predictions.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from stepscope.engine.errors import EngineError
from stepscope.engine.io.arguments import check_finite, check_type
from stepscope.engine.io.files import atomic_write, open_text, to_json
from stepscope.engine.io.json_records import Amount, AmountOrNan, Count, FiniteOrNan, ProbOrNan, parse_record, reading

UpdateLegality = Literal["legal", "illegal", "malformed"]
GapReason = Literal["dropped", "no picture", "not reached"]
"""Why an instant of a live session has no decision: a full queue dropped its frame; the source had no picture; or the
session ended before the model reached its frame."""
GAP_REASONS: Final[tuple[GapReason, ...]] = get_args(GapReason)

_EPSILON = 1e-6  # of a frame: 1.16 s * 25 fps is 28.999...
_MAY_BE_UNKNOWN = ("speak_prob", "update_prob", "latency_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the task."""

    id: str
    """Identifier of the step in updates, such as ``S3``."""
    name: str
    """Description of the action, such as ``attach the wheel``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """A message from the user during the stream."""

    time_s: float
    """Seconds from the start of the video."""
    text: str

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a time that is no number, or a text that is none."""
        check_finite("the time of a user turn", self.time_s)
        check_type("the text of a user turn", self.text, str, "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A part of a video file that is read like a separate video."""

    start_s: float
    """Start within the file, in seconds, at least 0."""
    num_frames: int
    """Sampled frames, at least 1."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if the start or the number of frames is out of range."""
        if not (math.isfinite(self.start_s) and self.start_s >= 0):
            raise ValueError(f"an excerpt must start at 0 s or later, not at {self.start_s} s")
        if self.num_frames < 1:
            raise ValueError(f"an excerpt must have at least 1 frame, not {self.num_frames}")


def frame_at(time_s: float, fps: float) -> int:
    """Return the index of the frame at a time, ``floor(time_s * fps)``, robust against rounding of the product.

    For example, 1.16 s at 25 fps is frame 29, although ``1.16 * 25`` is 28.999... in floating point.
    """
    return math.floor(time_s * fps + _EPSILON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """The part of the context that was dropped before a frame, because the context was full."""

    tokens: Count
    """Tokens dropped, with those of the frames."""
    first_frame: Count | None = None
    """The first frame that was dropped; None if only text was. A frame of which one token was dropped counts."""
    last_frame: Count | None = None
    """The last of them: dropped frames follow one another."""
    summary: str | None = None
    """The text that the model wrote about the dropped part; None if its strategy asks for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """What a model wrote before its answer at a frame; it is never read as an answer."""

    text: str
    """Its beginning; empty if a server keeps it back."""
    num_tokens: Count | None = None
    """Its tokens with their marks; None if unknown."""
    latency_ms: Amount | None = None
    """Milliseconds of its request to a server, with the answer; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameOutput:
    """The assistant's decisions, texts and predicted state at one frame."""

    frame_index: Count
    """Index of the sampled frame, from 0."""
    time_s: Amount
    """Time of the frame in the video, in seconds. It is that of the decision: the frame's picture may be older."""
    speak_prob: ProbOrNan
    """Probability of speaking, read at the last image token, in [0, 1]; nan if an imported system does not have it."""
    update_prob: ProbOrNan
    """Probability of a state update, read at the last image token, in [0, 1]; nan as above."""
    response: str | None
    """The message to the user; None when the assistant stayed silent."""
    updates: tuple[str, ...]
    """Generated update texts, such as ``S3->complete``, including malformed ones."""
    dst_state: Mapping[str, str]
    """State of every step after this frame: not_started, in_progress or completed."""
    cache_tokens: Count
    """Tokens in the context after this frame."""
    refreshed: bool
    """Whether the context was full and was shortened before this frame."""
    latency_ms: AmountOrNan
    """Time of this frame's model passes, in milliseconds, with shared passes divided equally; nan as above."""
    first_token_ms: Amount | None = None
    """Milliseconds from the decision to write to the first token of this frame; None when nothing was written."""
    legality: tuple[UpdateLegality, ...] | None = None
    """Whether each update was legal, illegal or malformed in the state that it met. None if another program wrote the
    file without it; ``engine.dialogue.fill_legality`` fills it in."""
    signals: Mapping[str, FiniteOrNan] = field(default_factory=dict)
    """Further values of the frame by name, described in the run's ``SignalSpec`` records; nan if unknown."""
    state: str | None = None
    """State of the assistant at this frame, such as silent, standby, respond or delegate; None if it has none. At an
    instant of a live session without a decision the reason: dropped, no picture or not reached."""
    forgotten: Forgotten | None = None
    """The part of the context that was dropped before this frame; None if none was, or if it is unknown."""
    reasoning: Reasoning | None = None
    """What the model wrote before its answer; None without reasoning."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if the legality of some updates is missing."""
        if self.legality is not None and len(self.legality) != len(self.updates):
            raise ValueError(f"legality must have {len(self.updates)} entries, one for each update")

    def to_json(self) -> str:
        """Return the record as a line of JSON: nan is null; optional fields without a value are absent."""
        record: dict[str, Any] = {name: getattr(self, name) for name in _NAMES}  # asdict would copy every value
        record["dst_state"] = dict(self.dst_state)
        for name in _MAY_BE_UNKNOWN:
            if math.isnan(record[name]):
                record[name] = None
        if self.signals:
            record["signals"] = {name: None if math.isnan(value) else value for name, value in self.signals.items()}
        else:
            del record["signals"]
        if self.state is None:
            del record["state"]
        for name, part in (("forgotten", self.forgotten), ("reasoning", self.reasoning)):
            if part is None:
                del record[name]
            else:
                record[name] = asdict(part)
        return to_json(record)

    @classmethod
    def from_json(cls, line: str) -> "FrameOutput":
        """Read one line of JSON. Raises ``ValueError`` naming a field that is missing, unknown or of the wrong type."""
        return parse_record(cls, line, may_repeat_keys=True)


def unknown_output(index: int, *, fps: float, dst_state: Mapping[str, str]) -> FrameOutput:
    """Return the output of a silent frame of which only the state of the steps is known."""
    return FrameOutput(
        frame_index=index,
        time_s=index / fps,
        speak_prob=math.nan,
        update_prob=math.nan,
        response=None,
        updates=(),
        dst_state=dst_state,
        cache_tokens=0,
        refreshed=False,
        latency_ms=math.nan,
        legality=(),
    )


_NAMES = tuple(FrameOutput.__dataclass_fields__)


def is_decision(output: "FrameOutput") -> bool:
    """Return whether the assistant spoke or updated the state of a step at a frame."""
    return output.response is not None or bool(output.updates)


def check_probs(output: FrameOutput, *, decides_at: Callable[[int], bool]) -> FrameOutput:
    """Return the output unchanged. Raises ``EngineError`` if a probability is nan at a frame that has decisions."""
    is_unknown = math.isnan(output.speak_prob) or math.isnan(output.update_prob)
    if is_unknown and decides_at(output.frame_index):
        raise EngineError(
            f"frame {output.frame_index} has the probability nan: the weights are damaged, or the dtype has too little "
            "range; choose a different checkpoint or dtype"
        )
    return output


def is_same(output: FrameOutput, other: FrameOutput) -> bool:
    """Return whether two runs have the same texts and state at a frame, whatever their probabilities."""
    texts, states = (output.response, output.updates), dict(output.dst_state)
    return texts == (other.response, other.updates) and states == dict(other.dst_state)


def write_outputs(path: Path, outputs: Iterable[FrameOutput]) -> int:
    """Write a run file atomically, one output at a time. Returns the number of frames."""
    count = 0
    with atomic_write(path) as file:
        for output in outputs:
            file.write(output.to_json() + "\n")
            count += 1
    return count


def read_outputs(path: Path) -> tuple[FrameOutput, ...]:
    """Read a run file. Raises ``FileNotFoundError``, and ``ValueError`` naming the unreadable line."""
    outputs: list[FrameOutput] = []
    with reading(path):
        lines = list(numbered_lines(path))
    for number, line in lines:
        try:
            outputs.append(FrameOutput.from_json(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    return tuple(outputs)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a JSON lines file, numbered from 1. Only a newline ends a line: texts may hold U+2028."""
    with open_text(path, newline="\n") as file:
        yield from enumerate(file, start=1)
