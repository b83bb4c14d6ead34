"""Counts of one video, and their sums over many videos.

Scores over a split are micro averages: counts are added over videos and divided once. A bootstrap resample is the same
sum with different weights. A ratio or mean without data is nan, never 0.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Base of counts records. A field is a number, a tuple of fixed length of numbers, ``Values`` or ``Counts``."""

    def __add__(self, other: Self) -> Self:
        return Pool((self, other), type(self)).total()


C = TypeVar("C", bound=Counts)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A weighted list of numbers, such as latencies: ascending ``numbers [N]`` with ``weights [N]``."""

    numbers: Numbers
    weights: Numbers

    @classmethod
    def of(cls, numbers: Iterable[float] = ()) -> Self:
        """Return the numbers, given in any order, with weight 1 each."""
        kept = np.sort(np.fromiter(numbers, float))
        return cls(kept, np.ones(len(kept)))

    @property
    def total(self) -> float:
        """Sum of the weights, which is the number of values."""
        return float(self.weights.sum())

    def above(self, edges: Numbers, *, or_equal: bool = False) -> Numbers:
        """Return, per edge ``[E]``, the total weight of the numbers that are greater, or also of equal ones."""
        below = np.append(0.0, self.weights.cumsum())
        above: Numbers = below[-1] - below[np.searchsorted(self.numbers, edges, "left" if or_equal else "right")]
        return above

    def mean(self) -> float:
        """Return the mean; nan without data."""
        return ratio(float((self.weights * self.numbers).sum()), self.total)

    def quantile(self, level: float) -> float:
        """Return the smallest number that at least the fraction ``level`` does not exceed; nan without data.

        Of 1, 2, 3, 4 the quantile at 0.5 is 2.
        """
        reached = self.weights.cumsum()
        if not len(reached) or not reached[-1]:
            return math.nan
        # The tolerances: rounding must not skip a number, and a number of weight 0 must not be returned.
        wanted = max(level * reached[-1] * (1 - 1e-12), 1e-12)
        return float(self.numbers[np.searchsorted(reached, wanted)])

    def median(self) -> float:
        """Return the median, for an even count the mean of the two middle numbers; nan without data."""
        reached = self.weights.cumsum()
        if not len(reached) or not reached[-1]:
            return math.nan
        half = reached[-1] / 2
        middle = self.numbers[[np.searchsorted(reached, half), np.searchsorted(reached, half, side="right")]]
        return float(middle.mean())


class Pool(Generic[C]):
    """Counts of ``V`` videos, stacked once to be added with any weights; of no videos every sum is ``kind()``."""

    def __init__(self, rows: Sequence[C], kind: type[C]) -> None:
        self.num_videos = len(rows)
        columns: list[Numbers] = []
        self._read = _stack(rows or [kind()], columns)
        self._columns = np.column_stack(columns) if columns else np.empty((max(len(rows), 1), 0))
        """All numbers but those of ``Values``, ``[V, K]``."""

    def total(self, weights: Numbers | None = None) -> C:
        """Return the sum of the counts with ``weights [V]`` of the videos, by default 1 each."""
        if weights is None or not self.num_videos:
            weights = np.ones(max(self.num_videos, 1))
        # Added row by row: unlike in a matrix product, rows of weight 0 then never change the rounding of the others.
        sums = np.add.reduce(weights[:, None] * self._columns, axis=0)
        added: C = self._read(sums.tolist(), weights)
        return added


def _stack(rows: Sequence[Any], columns: list[Numbers]) -> Callable[[list[float], Numbers], Any]:
    """Append the columns of the rows, each ``[V, k]``; return a function from all sums ``[K]`` and weights ``[V]``.

    The function returns a weighted sum of the rows.
    """
    first = rows[0]
    if isinstance(first, Counts):
        parts = {part.name: _stack([getattr(row, part.name) for row in rows], columns) for part in fields(first)}
        return lambda sums, weights: type(first)(**{name: read(sums, weights) for name, read in parts.items()})
    if isinstance(first, Values):
        numbers = np.concatenate([row.numbers for row in rows])
        order = np.argsort(numbers, kind="stable")
        video = np.repeat(np.arange(len(rows)), [len(row.numbers) for row in rows])[order]
        ascending = numbers[order]
        return lambda _, weights: Values(ascending, weights[video])
    stacked = np.array(rows, float)
    begin = sum(column.shape[1] for column in columns)
    columns.append(stacked.reshape(len(rows), -1))
    end = begin + columns[-1].shape[1]
    return lambda sums, _: sums[begin] if stacked.ndim == 1 else tuple(sums[begin:end])


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``; nan if ``whole`` is 0."""
    return part / whole if whole else math.nan


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; nan without values."""
    return ratio(sum(values), len(values))
