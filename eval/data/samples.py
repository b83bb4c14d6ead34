"""Records of a split: its samples, each a video with its task and reference dialogue.

``eval.data.loading`` reads them from files.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import parse_steps
from stepscope.engine.plurals import format_count
from stepscope.engine.records import Excerpt, Step, UserTurn, frame_at
from stepscope.eval.data.json_fields import check_text

Role = Literal["update", "user", "assistant"]
SPAN_FIELDS: Final = ("end_s", "related_start_s", "related_end_s")
"""Fields of a turn that describe its reply span; None for an instant."""
ROLE_ORDER: Mapping[str, int] = {"update": 0, "user": 1, "assistant": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reference turn."""

    time_s: float
    """Seconds from the start of the sample; its frame is ``floor(time_s * fps)``."""
    role: Role
    text: str
    """The message, or the update as text, such as ``S3->complete``."""
    cause: str | None = None
    """Why this turn is hard, if the data names a reason."""
    end_s: float | None = field(default=None, repr=False)
    """End of the reply span, after ``time_s``: a reply is in time from ``time_s`` to here. None for an instant."""
    related_end_s: float | None = field(default=None, repr=False)
    """End of the evidence in the video, if the data names it; only for a turn with a reply span."""
    related_start_s: float | None = field(default=None, repr=False)
    """Start of the evidence; None for the start of the video. No score depends on it."""

    def __post_init__(self) -> None:
        check_text("a turn's text", self.text)

    def moved(self, time_s: float) -> "Turn":
        """Return the turn at another time; its span keeps its length."""
        shift = time_s - self.time_s
        times = {name: getattr(self, name) for name in SPAN_FIELDS}
        moved: dict[str, Any] = {name: value + shift for name, value in times.items() if value is not None}
        if "related_start_s" in moved:
            moved["related_start_s"] = max(0.0, moved["related_start_s"]) or None
        return replace(self, time_s=time_s, **moved)

    def as_instant(self) -> "Turn":
        """Return the turn without its reply span."""
        without: dict[str, Any] = dict.fromkeys(SPAN_FIELDS)
        return replace(self, **without)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One video of a split."""

    video_id: str
    """Id of the sample, unique in the split."""
    video_path: Path | None = None
    """The video file, which may be longer than the sample; None if there are only features."""
    fps: float
    num_frames: int
    goal: str = ""
    steps: tuple[Step, ...] = ()
    turns: tuple[Turn, ...] = ()
    """The reference dialogue by time; at the same time updates, user, assistant."""
    initial_state: Mapping[str, str] = field(default_factory=dict)
    """States at the start; steps that are missing here have not started."""
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The recipe as a graph: for a step, the steps that must be completed before it starts. Without cycles."""
    start_s: float | None = None
    """Start of the sample's ``num_frames`` in the file, in seconds; None if the sample is the whole file."""
    has_reference: bool = True
    """Whether ``turns`` are a reference, so that the video has scores. False for a recorded video without one, and for
    a recorded live session, whose turns are a copy of the model's own outputs."""
    clock_s: float | None = None
    """Unix time of the start on the clock of the data set, if its results have such times."""

    @property
    def excerpt(self) -> Excerpt | None:
        """The part of the file that the sample covers; None for the whole file."""
        return None if self.start_s is None else Excerpt(start_s=self.start_s, num_frames=self.num_frames)

    @property
    def is_copied(self) -> bool:
        """Whether the turns are a copy of a model's outputs, which becomes a reference when it is corrected."""
        return not self.has_reference and any(turn.role != "user" for turn in self.turns)

    @property
    def user_turns(self) -> tuple[UserTurn, ...]:
        """The user's messages."""
        return tuple(UserTurn(time_s=turn.time_s, text=turn.text) for turn in self.turns if turn.role == "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidSample:
    """An invalid record of a split."""

    video_id: str
    """Id of the record, unique in the split; its position in the file if it has none."""
    reason: str
    """The file, the problem and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The valid and invalid records of a split."""

    path: Path
    entries: tuple[Sample | InvalidSample, ...]
    """In the order of the file."""
    digest: str = field(default="", compare=False)
    """SHA-256 of the file when it was read; empty if it was not read."""
    provenance: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Origin of the samples that a manifest states."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The valid samples."""
        return tuple(entry for entry in self.entries if isinstance(entry, Sample))

    @property
    def reference_writer(self) -> str:
        """The program that wrote the reference dialogues, such as ``templates``; empty for those of people."""
        writer = self.provenance.get("reference_writer")
        return " ".join(writer.split())[:200] if isinstance(writer, str) else ""

    @property
    def origin(self) -> dict[str, str]:
        """What a copy of the split, and the scores over it, must state of the references; empty for those of people."""
        return {"reference_writer": self.reference_writer} if self.reference_writer else {}

    def find(self, video_id: str) -> Sample | None:
        """Return the valid sample of a video."""
        return next((sample for sample in self.samples if sample.video_id == video_id), None)


def build_task(sample: Sample) -> Task:
    """Return the task that a sample's video is streamed with."""
    return Task(goal=sample.goal, steps=sample.steps, user_turns=sample.user_turns, initial_state=sample.initial_state)


def is_inside(time_s: float, sample: Sample) -> bool:
    """Whether a time falls on one of the sample's frames."""
    return 0 <= time_s < math.inf and frame_at(time_s, sample.fps) < sample.num_frames


def describe_early_end(sample: Sample, num_frames: int) -> str:
    """Return a warning about a video, or results, of fewer frames than the sample has; empty if there are as many."""
    if num_frames >= sample.num_frames:
        return ""
    return f"ends after {num_frames} of {format_count(sample.num_frames, 'frame')}"


def describe_other_end(sample: Sample, num_frames: int) -> str:
    """Return a warning about a video of fewer frames than the sample has, or of two more; empty for any other."""
    if num_frames <= sample.num_frames + 1:
        return describe_early_end(sample, num_frames)
    return (
        f"has {num_frames} frames, though its record states {sample.num_frames}: the rest counts as without reference; "
        "give the record start_s 0 to leave it out"
    )


def turn_order(turn: Turn) -> tuple[float, int]:
    """Return the sort key of a turn: its time, then updates, user, assistant."""
    return turn.time_s, ROLE_ORDER[turn.role]


def make_own_sample(
    video_id: str,
    fps: float | None,
    video_path: str | Path | None,
    goal: str,
    steps: str | Sequence[Step],
    turns: Iterable[Turn] | None,
) -> Sample:
    """Return the sample of a recorded video, whose length is not known yet.

    Raises ``ValueError`` without a rate, and for a turn of an unknown role or an impossible time.
    """
    if fps is None or not 0 < fps < math.inf:
        raise ValueError(f"fps must be positive, since no split gives that of {video_id}; got {fps}")
    turns, has_reference = tuple(turns or ()), turns is not None
    for number, turn in enumerate(turns):
        place = f"video {video_id}: turns[{number}]"
        if turn.role not in ROLE_ORDER:
            raise ValueError(f"{place}.role must be one of {', '.join(ROLE_ORDER)}; got {turn.role!r}")
        if not 0 <= turn.time_s < math.inf:
            raise ValueError(f"{place}.time_s must be a time from 0 s; got {turn.time_s}")
    return Sample(
        video_id=video_id,
        video_path=None if video_path is None else Path(video_path).resolve(),
        fps=float(fps),
        num_frames=1,
        goal=goal,
        steps=parse_steps(steps) if isinstance(steps, str) else tuple(steps),
        turns=tuple(sorted(turns, key=turn_order)),
        has_reference=has_reference,
    )
