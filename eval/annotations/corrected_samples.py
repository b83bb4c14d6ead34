"""Applies corrections to references; no correction is dropped silently, and every one gets a status.

Each reviewer's latest correction of a value counts. If the proposals of reviewers differ, the source is kept and the
conflict is listed, unless ``prefer`` names one of them: then that reviewer's proposal is used.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from stepscope.engine.dialogue import parse_update
from stepscope.eval.annotations.corrections import Correction, CorrectionKind, TurnName, check_correction, name_turns
from stepscope.eval.data.samples import Sample, Turn, turn_order

Aspect = Literal["text", "time", "end", "presence"]
CorrectionStatus = Literal["in conflict", "effective", "overruled", "replaced", "does not fit"]
"""``in conflict``: proposals differ and the source is kept. ``effective``: the corrected reference has the change.
``overruled``: the proposal of a preferred reviewer is used instead. ``replaced``: the same reviewer corrected the value
again. ``does not fit``: the source has no such turn."""
INSTANT: Final = "instant"
"""The proposal of a turn without a reply span."""
ASPECTS: Final[Mapping[CorrectionKind, tuple[Aspect, ...]]] = {
    "text": ("text",),
    "update": ("text",),
    "time": ("time",),
    "boundary": ("time",),
    "span": ("end", "time"),
    "add": ("presence",),
    "delete": ("presence",),
}
"""The aspects for which a correction proposes a value; the first one has its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One reviewer's value for one aspect of a turn."""

    reviewer: str
    value: str | float
    """The text, the time or the end in seconds, ``INSTANT``, or ``keep`` or ``delete``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Different proposals for one aspect of a turn."""

    turn: TurnName
    aspect: Aspect
    proposals: tuple[Proposal, ...]
    """One per reviewer, sorted by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableCorrection:
    """A correction that does not fit the sample, with the reason."""

    correction: Correction
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedTurn:
    """A turn of the corrected reference with its origin."""

    turn: Turn
    name: TurnName
    """Its identifier in further corrections."""
    source: int | None
    """Position in the source's ``Sample.turns``; None if it was added."""
    reviewers: tuple[str, ...]
    """Reviewers whose corrections it contains; empty if it is unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedSample:
    """A sample with its corrections applied."""

    sample: Sample
    """Of a sample without a reference it is one as soon as a correction changes it."""
    turns: tuple[CorrectedTurn, ...]
    """Parallel to ``sample.turns``."""
    deleted: tuple[int, ...]
    """Positions of the deleted turns in the source's ``Sample.turns``."""
    conflicts: tuple[Conflict, ...]
    """Conflicts that no preferred reviewer settles; the source is kept there."""
    unusable: tuple[UnusableCorrection, ...]
    statuses: tuple[CorrectionStatus, ...] = field(default=(), compare=False)
    """The status of each given correction, in their order."""

    @property
    def num_changed(self) -> int:
        """Number of turns that are changed, added or deleted."""
        return sum(bool(turn.reviewers) for turn in self.turns) + len(self.deleted)


def apply_corrections(
    sample: Sample, corrections: Iterable[Correction], *, prefer: Sequence[str] = ()
) -> CorrectedSample:
    """Apply corrections, given oldest first.

    ``prefer`` names the reviewers whose proposals are used in a conflict, in order of preference.
    """
    drafts = {
        name.key: _TurnDraft(name=name, turn=turn, source=number)
        for number, (name, turn) in enumerate(zip(name_turns(sample.turns), sample.turns, strict=True))
    }
    listed: list[tuple[Correction, list[_TurnDraft]]] = []
    unusable = []
    for number, correction in enumerate(corrections):
        found: list[_TurnDraft] = []
        try:
            check_fits(sample, correction, drafts)
            found = _find_drafts(drafts, correction)
        except ValueError as error:
            unusable.append(UnusableCorrection(correction=correction, reason=str(error)))
        for draft in found:
            draft.propose(correction, number)
        listed.append((correction, found))
    for draft in drafts.values():
        draft.settle(prefer)
    results = [draft.result() for draft in drafts.values()]
    kept = [result for result in results if isinstance(result, CorrectedTurn)]
    turns = tuple(sorted(kept, key=lambda result: turn_order(result.turn)))
    deleted = tuple(result for result in results if isinstance(result, int))
    is_changed = bool(deleted) or any(turn.reviewers for turn in turns)
    return CorrectedSample(
        sample=replace(
            sample, turns=tuple(result.turn for result in turns), has_reference=sample.has_reference or is_changed
        ),
        turns=turns,
        deleted=deleted,
        conflicts=tuple(conflict for draft in drafts.values() for conflict in draft.conflicts()),
        unusable=tuple(unusable),
        statuses=tuple(
            _status([draft.status(correction, number) for draft in found])
            for number, (correction, found) in enumerate(listed)
        ),
    )


def _status(of_turns: Sequence[CorrectionStatus]) -> CorrectionStatus:
    """Combine the statuses of one correction at each of its turns: a boundary moves several turns."""
    # ``CorrectionStatus`` lists them by rank: a conflict at one turn outweighs an effect at another.
    return min(of_turns, key=get_args(CorrectionStatus).index, default="does not fit")


@dataclass(slots=True, kw_only=True)
class _TurnDraft:
    """A turn with the proposals of each reviewer per aspect, while corrections are collected."""

    name: TurnName
    turn: Turn
    source: int | None
    proposals: dict[Aspect, dict[str, str | float]] = field(
        default_factory=lambda: {"text": {}, "time": {}, "end": {}, "presence": {}}
    )
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of the latest correction per slot (see ``_slot``) and reviewer."""
    effective: dict[Aspect, dict[str, str | float]] = field(default_factory=dict)
    """The effective proposals per aspect; a reviewer who deletes the turn has no other proposals."""
    chosen: dict[Aspect, str | float | None] = field(default_factory=dict)

    def propose(self, correction: Correction, number: int) -> None:
        reviewer = correction.reviewer
        if correction.kind == "boundary" and self.proposals["presence"].get(reviewer) == "delete":
            return  # a boundary does not move turns that this reviewer has deleted
        self.last[_slot(correction), reviewer] = number
        self.proposals["presence"][reviewer] = "delete" if correction.kind == "delete" else "keep"
        if correction.text is not None and correction.kind in ("text", "update"):
            update = parse_update(correction.text) if correction.kind == "update" else None
            self.proposals["text"][reviewer] = correction.text if update is None else str(update)
        if correction.time_s is not None and correction.kind in ("time", "boundary", "span"):
            self.proposals["time"][reviewer] = correction.time_s
        if correction.kind == "span":
            self.last["time", reviewer] = number  # it has the start, too
            self.proposals["end"][reviewer] = INSTANT if correction.end_s is None else correction.end_s

    def settle(self, prefer: Sequence[str]) -> None:
        """Set the effective proposals and the chosen values, after the last proposal."""
        deleting = {reviewer for reviewer, value in self.proposals["presence"].items() if value == "delete"}
        self.effective = {
            aspect: {who: value for who, value in proposals.items() if aspect == "presence" or who not in deleting}
            for aspect, proposals in self.proposals.items()
        }
        self.chosen = {aspect: _choose(proposals, prefer) for aspect, proposals in self.effective.items()}

    def conflicts(self) -> Iterator[Conflict]:
        if self.chosen["presence"] == "delete":
            return  # the turn is deleted, so its text and time do not matter
        for aspect, proposals in self.effective.items():
            if proposals and self.chosen[aspect] is None:
                listed = tuple(Proposal(reviewer=who, value=value) for who, value in sorted(proposals.items()))
                yield Conflict(turn=self.name, aspect=aspect, proposals=listed)

    def status(self, correction: Correction, number: int) -> CorrectionStatus:
        """Return the status of a correction at this turn; ``number`` is its index among all corrections."""
        aspect, reviewer = ASPECTS[correction.kind][0], correction.reviewer
        propose = self.effective[aspect].get(reviewer)
        is_last = self.last.get((_slot(correction), reviewer)) == number
        is_undone = aspect == "presence" and (propose == "delete") != (correction.kind == "delete")
        if not is_last or propose is None or is_undone:
            return "replaced"
        chosen, presence = self.chosen[aspect], self.chosen["presence"]
        if aspect != "presence" and presence == "delete":
            return "overruled"
        is_disputed = self.source is None and presence is None  # a turn that not all want to be added is not there
        if chosen is None or (aspect != "presence" and is_disputed):
            return "in conflict"
        return "effective" if chosen == propose else "overruled"

    def result(self) -> CorrectedTurn | int | None:
        """Return the corrected turn, the source position of a deleted turn, or None for a rejected addition."""
        chosen = self.chosen
        if chosen["presence"] == "delete" or (self.source is None and chosen["presence"] != "keep"):
            return self.source
        text, time_s = chosen["text"], chosen["time"]
        turn = self.turn if text is None else replace(self.turn, text=str(text))
        turn = turn if time_s is None else turn.moved(float(time_s))
        turn = turn if chosen["end"] is None else _with_end(turn, chosen["end"])
        changes: dict[Aspect, bool] = {
            "text": turn.text != self.turn.text,
            "time": turn.time_s != self.turn.time_s,
            "end": turn.end_s != self.turn.end_s,
            "presence": self.source is None,
        }
        contributors = {
            who
            for aspect, of_all in self.effective.items()
            for who in of_all
            if changes[aspect] and of_all[who] == chosen[aspect]
        }
        return CorrectedTurn(turn=turn, name=self.name, source=self.source, reviewers=tuple(sorted(contributors)))


def _with_end(turn: Turn, end: str | float) -> Turn:
    """Return a turn with another end of its reply span, or as an instant; an end before its start makes it one, too."""
    if end == INSTANT or float(end) <= turn.time_s:
        return turn.as_instant()
    related_s = turn.related_end_s
    return replace(turn, end_s=float(end), related_end_s=related_s if related_s is None else min(related_s, float(end)))


def _slot(correction: Correction) -> str:
    """Return the slot of a correction: a later correction of the same slot and reviewer replaces it."""
    aspect = ASPECTS[correction.kind][0]
    return correction.kind if aspect == "presence" else aspect


def _choose(proposals: Mapping[str, str | float], prefer: Sequence[str]) -> str | float | None:
    """Return the value that all propose, else that of the most preferred reviewer; None if there is neither."""
    values = set(proposals.values())
    if len(values) == 1:
        return values.pop()
    return next((proposals[reviewer] for reviewer in prefer if reviewer in proposals), None)


def _find_drafts(drafts: dict[tuple[str, int, str, int], _TurnDraft], correction: Correction) -> list[_TurnDraft]:
    key = correction.turn.key
    if correction.kind == "add" and key not in drafts:
        name = correction.turn
        turn = Turn(time_s=name.time_s, role=name.role, text=name.text)
        drafts[key] = _TurnDraft(name=name, turn=turn, source=None)
    if correction.kind == "boundary":
        return [draft for other, draft in drafts.items() if other[:2] == key[:2]]
    return [drafts[key]]


def check_fits(sample: Sample, correction: Correction, known: Container[object]) -> None:
    """Raise ``ValueError`` unless a correction fits a sample, and adds a turn or names one whose key is ``known``."""
    check_correction(sample, correction)
    if correction.kind != "add" and correction.turn.key not in known:
        raise ValueError(
            f"the reference has no {correction.turn.role} turn {correction.turn.text!r} at "
            f"{correction.turn.time_s:g} s; the source has changed since the correction"
        )
