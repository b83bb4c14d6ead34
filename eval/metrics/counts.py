"""Counts of one video, and how those of many are added up.

Scores over a split are micro: counts are added over videos first and divided once, so one video and a split go
through the same functions. A split drawn anew from its videos (see ``eval.metrics.bootstrap``) is the same sum under
other weights. A share or a mean of nothing is nan, never 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Base of the counts records: each field is a number, a tuple of so many numbers, ``Values`` or ``Counts``."""

    def __add__(self, other: Self) -> Self:
        return Pool((self, other), type(self)).total()


C = TypeVar("C", bound=Counts)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Numbers of which each is kept, such as latencies: ascending ``numbers [N]``, each with a weight ``[N]``."""

    numbers: Numbers
    weights: Numbers

    @classmethod
    def of(cls, numbers: Iterable[float] = ()) -> Self:
        """Keep numbers in any order, each with the weight 1."""
        kept = np.sort(np.fromiter(numbers, float))
        return cls(kept, np.ones(len(kept)))

    @property
    def total(self) -> float:
        """Sum of the weights: how many there are."""
        return float(self.weights.sum())

    def mean(self) -> float:
        """Return the mean; nan of nothing."""
        return ratio(float((self.weights * self.numbers).sum()), self.total)

    def quantile(self, level: float) -> float:
        """Return the least number that at least this share of all reaches at most; nan of nothing."""
        reached = self.weights.cumsum()
        if not len(reached) or not reached[-1]:
            return float("nan")
        wanted = max(level * reached[-1] * (1 - 1e-12), 1e-12)  # rounding must not skip one, nor weight 0 count
        return float(self.numbers[np.searchsorted(reached, wanted)])

    def median(self) -> float:
        """Return the middle number, or the mean of the two in the middle; nan of nothing."""
        reached = self.weights.cumsum()
        if not len(reached) or not reached[-1]:
            return float("nan")
        half = reached[-1] / 2
        middle = self.numbers[[np.searchsorted(reached, half), np.searchsorted(reached, half, side="right")]]
        return float(middle.mean())


class Pool(Generic[C]):
    """Counts of many videos, made ready once to be added under any weights.

    Args:
        rows: Counts of ``V`` videos; of none, every sum is that of ``kind()``.
        kind: Their type.
    """

    def __init__(self, rows: Sequence[C], kind: type[C]) -> None:
        self.num_videos = len(rows)
        self._stack = _stack(rows or [kind()])

    def total(self, weights: Numbers | None = None) -> C:
        """Add the counts, each video as often as its weight ``[V]`` says; once by default."""
        ones = np.ones(max(self.num_videos, 1))
        added: C = _total(self._stack, ones if weights is None or not self.num_videos else weights)
        return added


@dataclass(frozen=True, slots=True)
class _SortedValues:
    numbers: Numbers
    video: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Record:
    kind: type[Counts]
    parts: dict[str, Any]


def _stack(rows: Sequence[Any]) -> Any:
    """Put the rows' fields side by side: arrays ``[V, ...]``, and values in ascending order with their video."""
    if isinstance(rows[0], Counts):
        names = [field.name for field in fields(rows[0])]
        return _Record(type(rows[0]), {name: _stack([getattr(row, name) for row in rows]) for name in names})
    if isinstance(rows[0], Values):
        numbers = np.concatenate([row.numbers for row in rows])
        order = np.argsort(numbers, kind="stable")
        return _SortedValues(numbers[order], np.repeat(np.arange(len(rows)), [len(row.numbers) for row in rows])[order])
    return np.array(rows, float)


def _total(stack: Any, weights: Numbers) -> Any:
    if isinstance(stack, _Record):
        return stack.kind(**{name: _total(part, weights) for name, part in stack.parts.items()})
    if isinstance(stack, _SortedValues):
        return Values(stack.numbers, weights[stack.video])
    added = np.tensordot(weights, stack, 1)
    return float(added) if added.ndim == 0 else tuple(added.tolist())


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``; nan when ``whole`` is 0."""
    return part / whole if whole else float("nan")


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; nan of nothing."""
    return ratio(sum(values), len(values))
