"""The dialogue state: the task's steps, the updates that move them, and update texts.

A step goes ``not_started -> in_progress -> completed``; ``start`` and ``complete`` are its transitions. An
update text such as ``S3->complete`` (spaces are tolerated) that cannot be parsed is *malformed* and changes
nothing; one of an unknown step, or that skips, repeats or goes backwards, is *illegal* and is applied or
refused by a setting. A state is a value: applying an update gives a new one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from engine.config import IllegalUpdates
from engine.records import Step, UserTurn

StepState = Literal["not_started", "in_progress", "completed"]
UpdateLegality = Literal["legal", "illegal", "malformed"]

STATES: tuple[StepState, ...] = ("not_started", "in_progress", "completed")
TRANSITIONS: Mapping[str, tuple[StepState, StepState]] = {
    "start": ("not_started", "in_progress"),
    "complete": ("in_progress", "completed"),
}
"""Per transition, the state that it is legal in and the one that it leads to."""
_STEP_LINE = re.compile(r"(?:-\s*)?([A-Za-z]+\d+)\s*[:.]\s*(\S.*)")
_DIGITS = r"[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+"
_TIME = re.compile(rf"(?:(?:([0-9]+):([0-5][0-9])|([0-9]+)):([0-5][0-9](?:[.,][0-9]*)?)|({_DIGITS}))")
_USER_TURN = re.compile(r"\s*([0-9.,]+(?::[0-9.,]+)*)(?:\s*:\s+|\s*:(?=[^\s0-9.,:])|\s+)(\S(?:.*\S)?)\s*", re.DOTALL)
_UPDATE = re.compile(r"\s*(\S+?)\s*->\s*(start|complete)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One change of one step."""

    step_id: str
    """The step, such as ``S3``."""
    transition: Literal["start", "complete"]
    """What happens to it."""

    def __str__(self) -> str:
        """Return the update as text: ``S3->complete``."""
        return f"{self.step_id}->{self.transition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What an update text did to a state."""

    state: Mapping[str, str]
    """The state afterwards, a value of its own."""
    legality: UpdateLegality
    """Whether the update could be parsed and was allowed."""


def parse_update(text: str) -> Update | None:
    """Parse ``S3->complete`` or `` S3 -> complete ``; None for anything else."""
    match = _UPDATE.fullmatch(text)
    if match is None:
        return None
    return Update(step_id=match[1], transition="start" if match[2] == "start" else "complete")


def initial_state(steps: Iterable[Step], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a state of every step: as ``given``, otherwise not started.

    Raises ``ValueError`` for two steps of one id, a step that is not in ``steps`` or an unknown state.
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

    An illegal update of a known step takes effect when ``illegal`` is ``apply``; an unknown step never does.
    """
    update = parse_update(text)
    if update is None:
        return UpdateResult(state=dict(state), legality="malformed")
    before, after = TRANSITIONS[update.transition]
    is_legal = state.get(update.step_id) == before
    takes_effect = is_legal or (illegal == "apply" and update.step_id in state)
    changed = {**state, update.step_id: after} if takes_effect else dict(state)
    return UpdateResult(state=changed, legality="legal" if is_legal else "illegal")


def parse_steps(text: str) -> tuple[Step, ...]:
    """Read steps from text, one a line: ``S2: attach the wheel``, or the name alone, numbered from S1.

    Empty lines are skipped. Raises ``ValueError`` for two steps of one id.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    steps = []
    for number, line in enumerate(lines, start=1):
        match = _STEP_LINE.fullmatch(line)
        steps.append(Step(id=match[1], name=match[2]) if match else Step(id=f"S{number}", name=line))
    initial_state(steps)
    return tuple(steps)


def parse_user_turn(text: str) -> UserTurn:
    """Read ``12.5: What is next?``, or ``1:30 What is next?``: a time as ``parse_time`` reads it, and the words.

    A colon, a space or both part them. Raises ``ValueError`` for anything else, also for a time that is unclear, as in
    ``1:5 apples``.
    """
    match = _USER_TURN.fullmatch(text)
    try:
        if match is None:
            raise ValueError("the time and the words are not parted")
        time_s = parse_time(match[1])
    except ValueError as error:
        raise ValueError(
            "a user turn is written TIME: WORDS, the time in seconds, as m:ss or as h:mm:ss, such as "
            f"'12.5: What is next?' or '1:30 What is next?'; got {text!r}"
        ) from error
    return UserTurn(time_s=time_s, text=match[2])


def format_user_turn(turn: UserTurn) -> str:
    """Write a user turn as ``parse_user_turn`` reads it, to the last digit of its time in seconds."""
    return f"{format(Decimal(repr(float(turn.time_s))).normalize(), 'f')}: {turn.text}"


def parse_time(text: str) -> float:
    """Read a time as it is typed: seconds (``12.5``), ``m:ss`` or ``h:mm:ss``, with a point or a comma; in seconds.

    Raises ``ValueError`` for anything else, such as ``1:5`` or ``1:75``.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"a time is written as seconds, as m:ss or as h:mm:ss; got {text!r}")
    hours, long_minutes, minutes, seconds = match[1], match[2], match[3], match[4] or match[5]
    return 3600 * int(hours or 0) + 60 * int(long_minutes or minutes or 0) + float(seconds.replace(",", "."))
