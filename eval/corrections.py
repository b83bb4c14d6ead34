"""Corrections of a reference: a layer over the source, which is never changed.

A turn is named by what it says in the source (role, time, text), so that a correction outlives a re-run, an export and
another order of turns; a turn that is added is named by the form in which it was added. Of one reviewer the last word
counts. Where reviewers want different things the source stands and the conflict is listed, unless ``prefer`` names one
of them, whose word settles it. A correction that does not fit the sample any more is listed too: nothing is dropped
silently.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from engine.dialogue import parse_update
from engine.texts import plain
from eval.fields import check_index, check_number, check_text
from eval.samples import Role, Sample, Turn, is_inside, turn_order

CorrectionKind = Literal["text", "time", "update", "boundary", "add", "delete"]
MOST_TEXT = 50_000
"""Most characters of a text."""
CORRECTION_KINDS: tuple[CorrectionKind, ...] = ("text", "time", "update", "boundary", "add", "delete")
Aspect = Literal["text", "time", "presence"]


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
        check_text("a turn's text", self.text, most=MOST_TEXT)
        object.__setattr__(self, "text", plain(self.text))

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
            check_text("a correction's text", self.text, most=MOST_TEXT)
            object.__setattr__(self, "text", plain(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one reviewer wants of one aspect of a turn."""

    reviewer: str
    """Who."""
    value: str | float
    """The text, the time in seconds, or ``keep`` or ``delete``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Reviewers who want different things."""

    turn: TurnName
    """Of which turn."""
    aspect: Aspect
    """Of its text, its time, or whether it is there."""
    wishes: tuple[Wish, ...]
    """One per reviewer, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """A correction that does not fit the sample."""

    correction: Correction
    """The correction."""
    reason: str
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedTurn:
    """A turn of the corrected reference and where it comes from."""

    turn: Turn
    """As corrected."""
    name: TurnName
    """What further corrections call it."""
    source: int | None
    """Position in the source's ``Sample.turns``; None when it was added."""
    reviewers: tuple[str, ...]
    """Whose corrections it bears; empty when it is as in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedSample:
    """A sample with its corrections applied."""

    sample: Sample
    """The corrected sample."""
    turns: tuple[CorrectedTurn, ...]
    """Parallel to ``sample.turns``."""
    deleted: tuple[int, ...]
    """Positions in the source's ``Sample.turns`` of what was taken out."""
    conflicts: tuple[Conflict, ...]
    """What reviewers do not agree on and no preferred one settles; there the source stands."""
    unusable: tuple[Unusable, ...]
    """What does not fit the sample."""

    @property
    def num_changed(self) -> int:
        """How many turns are changed, added or deleted."""
        return sum(bool(turn.reviewers) for turn in self.turns) + len(self.deleted)


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


def apply_corrections(
    sample: Sample, corrections: Iterable[Correction], *, prefer: Sequence[str] = ()
) -> CorrectedSample:
    """Apply corrections, oldest first. ``prefer`` names reviewers whose word counts in a conflict, best first."""
    places = {
        name.key: _Place(name=name, turn=turn, source=number)
        for number, (name, turn) in enumerate(zip(name_turns(sample.turns), sample.turns, strict=True))
    }
    unusable = []
    for correction in corrections:
        try:
            check_correction(sample, correction)
            for place in _find_places(places, correction):
                place.wish(correction)
        except ValueError as error:
            unusable.append(Unusable(correction=correction, reason=str(error)))
    results = [place.result(prefer) for place in places.values()]
    kept = [result for result in results if isinstance(result, CorrectedTurn)]
    turns = tuple(sorted(kept, key=lambda result: turn_order(result.turn)))
    return CorrectedSample(
        sample=replace(sample, turns=tuple(result.turn for result in turns)),
        turns=turns,
        deleted=tuple(result for result in results if isinstance(result, int)),
        conflicts=tuple(conflict for place in places.values() for conflict in place.conflicts(prefer)),
        unusable=tuple(unusable),
    )


@dataclass(slots=True, kw_only=True)
class _Place:
    """A turn while corrections are gathered: per aspect what each reviewer wants."""

    name: TurnName
    turn: Turn
    source: int | None
    wishes: dict[Aspect, dict[str, str | float]] = field(
        default_factory=lambda: {"text": {}, "time": {}, "presence": {}}
    )

    def wish(self, correction: Correction) -> None:
        reviewer = correction.reviewer
        if correction.kind == "boundary" and self.wishes["presence"].get(reviewer) == "delete":
            return  # the turns that are moved are those that stand for this reviewer
        self.wishes["presence"][reviewer] = "delete" if correction.kind == "delete" else "keep"
        if correction.text is not None and correction.kind in ("text", "update"):
            update = parse_update(correction.text) if correction.kind == "update" else None
            self.wishes["text"][reviewer] = correction.text if update is None else str(update)
        if correction.time_s is not None and correction.kind in ("time", "boundary"):
            self.wishes["time"][reviewer] = correction.time_s

    def standing(self) -> Iterator[tuple[Aspect, Mapping[str, str | float]]]:
        """Yield what is wanted of each aspect; of a turn that a reviewer deletes that one wants nothing else."""
        gone = {reviewer for reviewer, value in self.wishes["presence"].items() if value == "delete"}
        for aspect, wishes in self.wishes.items():
            yield aspect, {who: value for who, value in wishes.items() if aspect == "presence" or who not in gone}

    def conflicts(self, prefer: Sequence[str]) -> Iterator[Conflict]:
        standing = dict(self.standing())
        if _choose(standing["presence"], prefer) == "delete":
            return  # nothing of it is left to differ on
        for aspect, wishes in standing.items():
            if len(set(wishes.values())) > 1 and _choose(wishes, prefer) is None:
                listed = tuple(Wish(reviewer=who, value=value) for who, value in sorted(wishes.items()))
                yield Conflict(turn=self.name, aspect=aspect, wishes=listed)

    def result(self, prefer: Sequence[str]) -> CorrectedTurn | int | None:
        """Return the turn; the source's position when it is deleted; None when what was added is not there."""
        chosen = {aspect: _choose(wishes, prefer) for aspect, wishes in self.standing()}
        is_there = chosen["presence"] != "delete" and (self.source is not None or chosen["presence"] == "keep")
        if not is_there:
            return self.source
        text, time_s = chosen["text"], chosen["time"]
        turn = self.turn if text is None else replace(self.turn, text=str(text))
        turn = turn if time_s is None else replace(turn, time_s=float(time_s))
        bears = {who for aspect, wishes in self.standing() for who in wishes if chosen[aspect] == wishes[who]}
        has_changed = self.source is None or turn != self.turn
        reviewers = tuple(sorted(bears)) if has_changed else ()
        return CorrectedTurn(turn=turn, name=self.name, source=self.source, reviewers=reviewers)


def _choose(wishes: Mapping[str, str | float], prefer: Sequence[str]) -> str | float | None:
    """Return what all want, or what the best-preferred reviewer wants; None where nobody's word counts."""
    values = set(wishes.values())
    if len(values) == 1:
        return values.pop()
    return next((wishes[reviewer] for reviewer in prefer if reviewer in wishes), None)


def _find_places(places: dict[tuple[str, int, str, int], _Place], correction: Correction) -> list[_Place]:
    key = correction.turn.key
    if correction.kind == "add" and key not in places:
        name = correction.turn
        turn = Turn(time_s=name.time_s, role=name.role, text=name.text)
        places[key] = _Place(name=name, turn=turn, source=None)
    if key not in places:
        raise ValueError(
            f"the reference has no {correction.turn.role} turn {correction.turn.text!r} at "
            f"{correction.turn.time_s:g} s; its source has changed since"
        )
    if correction.kind == "boundary":
        return [place for other, place in places.items() if other[:2] == key[:2]]
    return [places[key]]


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
