"""Counts of one video that add up to those of a split.

Scores over a split are micro: counts are added over videos first and divided once, so one video and a split go
through the same function. A share or a mean of nothing is nan, never 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Base of the counts records: numbers add, tuples join."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{item.name: getattr(self, item.name) + getattr(other, item.name) for item in fields(self)})


def share(part: float, whole: float) -> float:
    """Return ``part / whole``; nan when ``whole`` is 0."""
    return part / whole if whole else float("nan")


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; nan of nothing."""
    return share(sum(values), len(values))
