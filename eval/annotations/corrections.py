"""Corrections of a reference: a layer over the source; ``eval.annotations.corrected_samples`` applies them.

A turn is identified by its role, time and text in the source (an added turn: when it was added), so that a correction
stays valid after a re-run, an export and a change of order.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from stepscope.engine.dialogue import parse_update
from stepscope.engine.io.files import replace_surrogates
from stepscope.eval.data.json_fields import check_index, check_number, check_text
from stepscope.eval.data.samples import Role, Sample, Turn, is_inside

CorrectionKind = Literal["text", "time", "update", "boundary", "add", "delete", "span"]
Verdict = Literal["correct", "redundant", "missed", "early or late", "wrong text", "reference wrong", "unclear"]
"""A reviewer's judgement of an event."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
CORRECTION_KINDS: tuple[CorrectionKind, ...] = get_args(CorrectionKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnName:
    """The identifier of a turn. Raises ``ValueError`` if a value is out of range."""

    role: Role
    time_s: float
    """Time in the source, in seconds; compared in whole milliseconds."""
    text: str
    number: int = 0
    """Index among turns of the same role, time and text, from 0."""

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(f"a turn's role must be one of {', '.join(get_args(Role))}; got {self.role!r}")
        check_number("a turn's time_s", self.time_s)
        check_index("a turn's number", self.number)
        check_text("a turn's text", self.text)
        object.__setattr__(self, "text", replace_surrogates(self.text))

    @property
    def key(self) -> tuple[str, int, str, int]:
        """The values by which two names are compared."""
        return self.role, round(self.time_s * 1000), self.text, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """One change of one reference by one reviewer. Raises ``ValueError`` if a value is out of range."""

    reviewer: str
    kind: CorrectionKind
    """``text``, ``time`` and ``update`` replace a value of a turn; ``add`` and ``delete`` a whole turn. ``boundary``
    moves all updates of one time, except those that the reviewer has deleted. ``span`` sets the reply span of an
    assistant's turn, or makes it an instant."""
    turn: TurnName
    """The turn in the source; for ``add`` the new turn."""
    text: str | None = None
    """The new text, or the new update such as ``S3->complete``."""
    time_s: float | None = None
    """The new time, in seconds from the start of the video."""
    end_s: float | None = None
    """For ``span`` the new end, in seconds from the start of the video; None makes the turn an instant."""

    def __post_init__(self) -> None:
        if self.kind not in CORRECTION_KINDS:
            raise ValueError(f"a correction must be one of {', '.join(CORRECTION_KINDS)}; got {self.kind!r}")
        if self.time_s is not None:
            check_number("a correction's time_s", self.time_s)
        if self.end_s is not None:
            check_number("a correction's end_s", self.end_s)
        if self.text is not None:
            check_text("a correction's text", self.text)
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
    """Raise ``ValueError`` if a correction is invalid for this sample, such as a time after its end."""
    role, kind = correction.turn.role, correction.kind
    if kind in ("text", "update"):
        if (kind == "update") != (role == "update"):
            raise ValueError(f"a correction of kind {kind} does not fit a turn of the role {role}")
        _check_text(sample, correction.turn, correction.text)
    elif kind in ("time", "boundary"):
        if kind == "boundary" and role != "update":
            raise ValueError(f"a step boundary is moved by its updates, not by a turn of the role {role}")
        _check_time(sample, correction.time_s)
    elif kind == "span":
        _check_span(sample, correction)
    elif kind == "add":
        _check_text(sample, correction.turn, correction.turn.text)
        _check_time(sample, correction.turn.time_s)


def _check_text(sample: Sample, turn: TurnName, text: str | None) -> None:
    if text is None or not text.strip():
        raise ValueError("a correction's text must not be blank; to remove a turn, delete it")
    if turn.role != "update":
        return
    update, own = parse_update(text), parse_update(turn.text)
    ids = [step.id for step in sample.steps]
    if not ids:
        raise ValueError("this video has no steps, so no update of one")
    if update is None or update.step_id not in ids:
        step = own.step_id if own is not None and own.step_id in ids else ids[0]
        known = ", ".join(ids)
        raise ValueError(f"an update must be {step}->start or {step}->complete, of a step among {known}; got {text!r}")


def _check_span(sample: Sample, correction: Correction) -> None:
    if correction.turn.role != "assistant":
        raise ValueError(f"only a turn of the assistant has a reply span, not one of the role {correction.turn.role}")
    _check_time(sample, correction.time_s)
    last_s, start_s, end_s = sample.num_frames / sample.fps, correction.time_s, correction.end_s
    if end_s is not None and start_s is not None and not start_s < end_s <= last_s:
        raise ValueError(
            f"a reply span must end after its start, {start_s:g} s, and at most at {last_s:g} s; got {end_s:g}"
        )


def _check_time(sample: Sample, time_s: float | None) -> None:
    if time_s is None or not is_inside(time_s, sample):
        end_s = sample.num_frames / sample.fps
        raise ValueError(f"a time must be within the video, from 0 to below {end_s:g} s; got {time_s}")
