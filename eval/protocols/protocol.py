"""The records of a protocol: a rule that scores the times and the contents of replies against references.

A protocol counts each video by itself. The counts of many videos are added, and the scores computed from the sums, as
``eval.metrics.counts`` does for the other scores.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

ROUNDING: Final = 1e-9
"""Slack of a comparison of times, in seconds: 10.2 - 9.2 is not exactly 1."""
Reads = Literal["replies", "replies in spans", "completions", "mistakes", "steps", "next steps", "goals"]
Sums = Mapping[str, float]
"""Counts by name, which add up over videos."""


class Span(NamedTuple):
    """The time of a reference; both ends are equal for an instant."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """The references and the replies of one video, each by time."""

    references: tuple[Span, ...]
    times_s: tuple[float, ...]
    """Times of the ``P`` replies."""
    accuracies: tuple[tuple[float, ...], ...]
    """``[P, R]`` in [0, 1]: how right each reply is for each of the ``R`` references."""
    duration_s: float | None
    """End of the scored time, for protocols that count silence; None for that of the last reference or reply."""


class Counted(NamedTuple):
    """The counts of one video."""

    sums: Sums
    credits: tuple[float, ...]
    """Per reference, how far it is met, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number of a rule that can be set; whole if its default is an ``int``."""

    default: float
    maximum: float = 60.0
    minimum: float = 0.0

    def check(self, name: str, value: object) -> float:
        """Return the value of a parameter. Raise ``ValueError`` unless it is a number in range."""
        is_whole = isinstance(self.default, int)
        is_number = isinstance(value, int if is_whole else int | float) and not isinstance(value, bool)
        if not is_number or not self.minimum <= value <= self.maximum:  # type: ignore[operator]
            kind = "whole number" if is_whole else "number"
            raise ValueError(f"{name} must be a {kind} from {self.minimum:g} to {self.maximum:g}; got {value!r}")
        return value  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A published rule, in words for tables and as functions."""

    name: str
    windows: str
    """The times at which a reply counts for a reference."""
    matching: str
    judge: str
    """The published judge of contents; ``score_protocol`` takes its verdicts as accuracies."""
    aggregation: str
    source: str
    """Paper, and the file that was read."""
    main: str
    """The score that ranks systems; higher is better."""
    count: Callable[..., Counted]
    """Takes a ``Video`` and the parameters by name."""
    summarize: Callable[[Sums], dict[str, float]]
    """Scores of the added counts; nan if undefined."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    silence: frozenset[str] = frozenset()
    """Replies that count as silence, in lower case."""
    reads: Reads = "replies"
    """The references of a run: all replies, those with a reply span, completions of steps, or categories of segments.
    Runs have no mistakes."""
    grades_joined: bool = False
    """Whether a reply is graded together with all earlier ones of its span."""
    has_one_reference: bool = False
    """Whether the benchmark has exactly one reference for each video."""

    @property
    def has_categories(self) -> bool:
        """Whether a text counts as the nearest category of the split, so that no judge grades it."""
        return self.reads in ("steps", "next steps", "goals")

    @property
    def reads_contents(self) -> bool:
        """Whether the accuracies of replies change its scores."""
        return self.judge != "none"

    def check_parameters(self, given: Mapping[str, object]) -> dict[str, float]:
        """Return all parameters. Raise ``ValueError`` for an unknown one, or for an invalid value."""
        for name in given:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise ValueError(f"{self.name} has no parameter {name!r}; its parameters are: {known}")
        return {name: one.check(name, given.get(name, one.default)) for name, one in self.parameters.items()}


def measure_delay(time_s: float, span: Span) -> float:
    """Return the distance from a span to a time in seconds: negative before it, 0 inside, positive after it."""
    return min(time_s - span.start_s, 0.0) + max(time_s - span.end_s, 0.0)


def compute_f1(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0, nan if one is nan."""
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0 * total


def score_hits(sums: Sums) -> dict[str, float]:
    """Return precision, recall and F1 of ``hits``, over ``replies`` and over ``references``.

    All are nan without references, and the precision is 0 without replies. ``reply_hits`` replaces the hits in the
    precision.
    """
    if not sums["references"]:
        return dict.fromkeys(("precision", "recall", "f1"), math.nan)
    precision = sums.get("reply_hits", sums["hits"]) / sums["replies"] if sums["replies"] else 0.0
    recall = sums["hits"] / sums["references"]
    return {"precision": precision, "recall": recall, "f1": compute_f1(precision, recall)}


def divide_by(total: str, **parts: str) -> Callable[[Sums], dict[str, float]]:
    """Return a function that divides some counts, given by the name of their score, by another; nan if it is 0."""
    return lambda sums: {name: sums[part] / sums[total] if sums[total] else math.nan for name, part in parts.items()}
