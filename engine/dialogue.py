"""The dialogue state: the steps of a task, and the updates that change their states.

An update is text such as ``S3->complete``. One that cannot be parsed is *malformed* and changes nothing. One of an
unknown step, or that skips, repeats or goes backwards, is *illegal*; a setting decides whether it is applied.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, get_args

from stepscope.engine.config import IllegalUpdates
from stepscope.engine.io.files import BLANKS, strip_text
from stepscope.engine.io.json_records import short_repr
from stepscope.engine.records import FrameOutput, Step, UpdateLegality, UserTurn

StepState = Literal["not_started", "in_progress", "completed"]

STATES: tuple[StepState, ...] = get_args(StepState)
TRANSITIONS: Mapping[str, tuple[StepState, StepState]] = {
    "start": ("not_started", "in_progress"),
    "complete": ("in_progress", "completed"),
}
"""The state before and after each transition."""
MAX_SECONDS = 1e9
"""Largest time in a text or a file, in seconds: about 31 years."""
_BLANK = f"[{BLANKS}]"
_STEP_LINE = re.compile(rf"(?:-{_BLANK}*)?([A-Za-z]+\d+){_BLANK}*[:.]{_BLANK}*([^{BLANKS}].*)")
_DIGITS = r"[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+"
_TIME = re.compile(rf"(?:(?:([0-9]+):([0-5][0-9])|([0-9]+)):([0-5][0-9](?:[.,][0-9]*)?)|({_DIGITS}))")
_USER_TURN = re.compile(
    rf"([0-9.,]+(?::[0-9.,]+)*)(?:{_BLANK}*:{_BLANK}+|{_BLANK}*:(?=[^{BLANKS}0-9.,:])|{_BLANK}+)([^{BLANKS}].*)",
    re.DOTALL,
)
_UPDATE = re.compile(r"\s*(\S+?)\s*->\s*(start|complete)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One change of one step."""

    step_id: str
    transition: Literal["start", "complete"]

    def __str__(self) -> str:
        """Return the update as text: ``S3->complete``."""
        return f"{self.step_id}->{self.transition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """The result of applying an update text to a state."""

    state: Mapping[str, str]
    """The new state, a copy."""
    legality: UpdateLegality


def parse_update(text: str) -> Update | None:
    """Parse ``S3->complete`` or `` S3 -> complete ``; None for anything else."""
    match = _UPDATE.fullmatch(text)
    if match is None:
        return None
    return Update(step_id=match[1], transition="start" if match[2] == "start" else "complete")


def initial_state(steps: Iterable[Step], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the state of every step: as in ``given``, otherwise not started.

    Raises ``ValueError`` if two steps share an id, or if ``given`` has an unknown step or state.
    """
    ids = [step.id for step in steps]
    if len(set(ids)) < len(ids):
        raise ValueError(f"step ids must differ; got {', '.join(ids)}")
    for step_id, value in (given or {}).items():
        if step_id not in ids or value not in STATES:
            raise ValueError(f"the initial state {step_id}: {value} is not one of {', '.join(STATES)} of a known step")
    return {step_id: (given or {}).get(step_id, "not_started") for step_id in ids}


def apply_update(state: Mapping[str, str], text: str, *, illegal: IllegalUpdates = "apply") -> UpdateResult:
    """Apply an update text to a state.

    An illegal update of a known step takes effect if ``illegal`` is ``"apply"``; an update of an unknown step never
    does.
    """
    update = parse_update(text)
    if update is None:
        return UpdateResult(state=dict(state), legality="malformed")
    before, after = TRANSITIONS[update.transition]
    is_legal = state.get(update.step_id) == before
    takes_effect = is_legal or (illegal == "apply" and update.step_id in state)
    changed = {**state, update.step_id: after} if takes_effect else dict(state)
    return UpdateResult(state=changed, legality="legal" if is_legal else "illegal")


def fill_legality(
    outputs: Sequence[FrameOutput], initial: Mapping[str, str], *, illegal: IllegalUpdates = "apply"
) -> tuple[FrameOutput, ...]:
    """Return the outputs of a whole video with the legality of every update, which files of other programs may lack.

    ``outputs`` begin with the first frame, before which the state is ``initial``.
    """
    if all(output.legality is not None for output in outputs):
        return tuple(outputs)
    filled, state = [], initial
    for output in outputs:
        legality = []
        for text in output.updates:
            change = apply_update(state, text, illegal=illegal)
            state = change.state
            legality.append(change.legality)
        filled.append(replace(output, legality=tuple(legality)))
    return tuple(filled)


def parse_steps(text: str) -> tuple[Step, ...]:
    """Read steps from text, one per line.

    A line is ``S2: attach the wheel``, or the name alone, which is numbered from S1. Empty lines are skipped. Raises
    ``ValueError`` if two steps share an id.
    """
    lines = [(line, _STEP_LINE.fullmatch(line)) for line in map(strip_text, text.splitlines()) if line]
    steps = tuple(
        Step(id=match[1], name=match[2]) if match else Step(id=f"S{number}", name=line)
        for number, (line, match) in enumerate(lines, start=1)
    )
    initial_state(steps)
    return steps


def parse_user_turn(text: str) -> UserTurn:
    """Read a user turn such as ``12.5: What is next?`` or ``1:30 What is next?``.

    The time has a format of ``parse_time``. A colon, a space or both separate it from the message. Raises
    ``ValueError`` if the text is malformed or its time is ambiguous, as in ``1:5 apples``.
    """
    match = _USER_TURN.fullmatch(strip_text(text))
    if match is None or not _TIME.fullmatch(match[1]):
        raise ValueError(
            "a user turn is written TIME: WORDS, the time in seconds, as m:ss or as h:mm:ss, such as "
            f"'12.5: What is next?' or '1:30 What is next?'; got {short_repr(text)}"
        )
    return UserTurn(time_s=parse_time(match[1]), text=match[2])


def format_clock(time_s: float, *, digits: int = 0) -> str:
    """Return a time in seconds as ``m:ss`` or ``h:mm:ss``, with decimal places: 90.25 and 1 digit give ``1:30.2``."""
    ticks = round(time_s * 10**digits)
    minutes, rest = divmod(ticks, 60 * 10**digits)
    hours, minutes = divmod(minutes, 60)
    width = 2 + digits + (digits > 0)
    return f"{f'{hours}:{minutes:02}' if hours else minutes}:{rest / 10**digits:0{width}.{digits}f}"


def format_user_turn(turn: UserTurn) -> str:
    """Return a user turn as text for ``parse_user_turn``, with all digits of its time in seconds."""
    return f"{format(Decimal(repr(float(turn.time_s))).normalize(), 'f')}: {turn.text}"


def parse_time(text: str) -> float:
    """Read a time typed as seconds (``12.5``), ``m:ss`` or ``h:mm:ss``, with a decimal point or comma.

    Returns seconds. Raises ``ValueError`` if the text is malformed, such as ``1:5`` or ``1:75``, or above
    ``MAX_SECONDS``.
    """
    match = _TIME.fullmatch(strip_text(text))
    if match is None:
        raise ValueError(f"a time is written as seconds, as m:ss or as h:mm:ss; got {short_repr(text)}")
    hours, long_minutes, minutes, seconds = match[1], match[2], match[3], match[4] or match[5]
    whole_s = 3600 * float(hours or 0) + 60 * float(long_minutes or minutes or 0)  # floats, since digits are unlimited
    time_s = whole_s + float(seconds.replace(",", "."))
    if time_s > MAX_SECONDS:
        raise ValueError(f"a time is at most {MAX_SECONDS:.0f} seconds; got {short_repr(text)}")
    return time_s
