"""Corrections of a reference: a layer over the source, which is never changed.

A turn is named by what it says in the source (role, time, text), so that a correction outlives a re-run, an export and
another order of turns; a turn that is added is named by the form in which it was added.
``eval.annotations.corrected_samples`` applies corrections to a sample.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from engine.dialogue import parse_update
from engine.io import replace_surrogates
from eval.data.json_fields import check_index, check_number, check_text
from eval.data.samples import Role, Sample, Turn, is_inside

CorrectionKind = Literal["text", "time", "update", "boundary", "add", "delete"]
MAX_TEXT_CHARS = 50_000
"""Most characters of a text."""
CORRECTION_KINDS: tuple[CorrectionKind, ...] = ("text", "time", "update", "boundary", "add", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnName:
    """What a turn is known by. Raises ``ValueError`` for a value out of its range."""

    role: Role
    """An update of the state, the user, or the assistant."""
    time_s: float
    """Its time in the source, in seconds; compared by the millisecond."""
    text: str
    """Its text in the source."""
    number: int = 0
    """Which of several turns that are alike in all this, from 0."""

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(f"a turn's role must be one of {', '.join(get_args(Role))}; got {self.role!r}")
        check_number("a turn's time_s", self.time_s)
        check_index("a turn's number", self.number)
        check_text("a turn's text", self.text, max_chars=MAX_TEXT_CHARS)
        object.__setattr__(self, "text", replace_surrogates(self.text))

    @property
    def key(self) -> tuple[str, int, str, int]:
        """What two names are compared by."""
        return self.role, round(self.time_s * 1000), self.text, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What one reviewer wants changed in one reference. Raises ``ValueError`` for a value out of its range."""

    reviewer: str
    """Who."""
    kind: CorrectionKind
    """New words, a new time, another update, a step boundary (all updates of one time move, but for those that the
    reviewer has deleted), a new turn, or none."""
    turn: TurnName
    """The turn as the source has it; of an addition the turn that is added."""
    text: str | None = None
    """The new words, or the new update such as ``S3->complete``."""
    time_s: float | None = None
    """The new time, in seconds from the start of the video."""

    def __post_init__(self) -> None:
        if self.kind not in CORRECTION_KINDS:
            raise ValueError(f"a correction must be one of {', '.join(CORRECTION_KINDS)}; got {self.kind!r}")
        if self.time_s is not None:
            check_number("a correction's time_s", self.time_s)
        if self.text is not None:
            check_text("a correction's text", self.text, max_chars=MAX_TEXT_CHARS)
            object.__setattr__(self, "text", replace_surrogates(self.text))


def name_turns(turns: Iterable[Turn]) -> tuple[TurnName, ...]:
    """Return the names of turns, in their order."""
    seen: dict[tuple[str, int, str, int], int] = {}
    names = []
    for turn in turns:
        name = TurnName(role=turn.role, time_s=turn.time_s, text=turn.text)
        number = seen[name.key] = seen.get(name.key, -1) + 1
        names.append(replace(name, number=number))
    return tuple(names)


def check_correction(sample: Sample, correction: Correction) -> None:
    """Raise ``ValueError`` for what can stand in no reference of this sample, such as a time after its end."""
    role, kind = correction.turn.role, correction.kind
    if kind in ("text", "update"):
        if (kind == "update") != (role == "update"):
            raise ValueError(f"a correction of kind {kind} does not fit a turn of the role {role}")
        _check_text(sample, role, correction.text)
    elif kind in ("time", "boundary"):
        if kind == "boundary" and role != "update":
            raise ValueError(f"a step boundary is moved by its updates, not by a turn of the role {role}")
        _check_time(sample, correction.time_s)
    elif kind == "add":
        _check_text(sample, role, correction.turn.text)
        _check_time(sample, correction.turn.time_s)


def _check_text(sample: Sample, role: Role, text: str | None) -> None:
    if text is None or not text.strip():
        raise ValueError("a correction must hold text that is not blank; to take a turn out, delete it")
    if role != "update":
        return
    update = parse_update(text)
    ids = [step.id for step in sample.steps]
    if update is None or update.step_id not in ids:
        known = ", ".join(ids) or "no step"
        raise ValueError(f"an update is written S3->start or S3->complete, of a step among {known}; got {text!r}")


def _check_time(sample: Sample, time_s: float | None) -> None:
    if time_s is None or not is_inside(time_s, sample):
        end_s = sample.num_frames / sample.fps
        raise ValueError(f"a time must lie in the video, from 0 to below {end_s:g} s; got {time_s}")
