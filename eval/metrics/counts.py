"""Counts of one video, and their sums over many videos.

Scores over a split are micro averages: counts are added over videos and divided once. A bootstrap resample is the same
sum with different weights. A ratio, mean or count without data is nan, never 0.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Final, Generic, Self, TypeVar

import numpy as np

from stepscope.eval.metrics.values import Numbers, SortedNumbers, Values, Weightings

_MAX_BLOCK: Final = 64
"""Weightings that are computed together."""
_MAX_BLOCK_NUMBERS: Final = 2**24
"""Bound of their memory: weightings of a block times the length of the longest list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Base of counts records. A field is a number, a tuple of fixed length of numbers, ``Values`` or ``Counts``."""

    def __add__(self, other: Self) -> Self:
        return Pool((self, other), type(self)).total()


C = TypeVar("C", bound=Counts)


class Pool(Generic[C]):
    """Counts of ``V`` videos, stacked once to be added with any weights; of no videos every sum is ``kind()``."""

    def __init__(self, rows: Sequence[C], kind: type[C]) -> None:
        self.num_videos = len(rows)
        columns, lists = list[Numbers](), list[SortedNumbers]()
        self._read = _stack(rows or [kind()], columns, lists)
        self._columns = np.column_stack(columns) if columns else np.empty((max(len(rows), 1), 0))
        """All numbers, but of ``Values`` their totals, ``[V, K]``."""
        longest = max((len(one.numbers) for one in lists), default=0)
        self._block_size = min(_MAX_BLOCK, max(1, _MAX_BLOCK_NUMBERS // max(1, longest)))

    def total(self, weights: Numbers | None = None) -> C:
        """Return the sum of the counts with ``weights [V]`` of the videos, by default 1 each."""
        return next(self.totals([np.ones(self.num_videos) if weights is None else weights]))

    def totals(self, weightings: Iterable[Numbers]) -> Iterator[C]:
        """Yield the sum under each of many weightings ``[V]``; many at once are faster than one after the other."""
        rows = iter(weightings if self.num_videos else (np.ones(1) for _ in weightings))
        while block := list(islice(rows, self._block_size)):
            matrix = Weightings(np.array(block, float))
            for row, weights in enumerate(matrix.matrix):
                # Added row by row: unlike in a matrix product, rows of weight 0 do not change the rounding of others.
                sums = np.add.reduce(weights[:, None] * self._columns, axis=0)
                yield self._read(sums.tolist(), matrix, row)


def _stack(
    rows: Sequence[Any], columns: list[Numbers], lists: list[SortedNumbers]
) -> Callable[[list[float], Weightings, int], Any]:
    """Append the columns of the rows, each ``[V, k]``, and their lists of numbers; return a function that sums them.

    It returns the sum of the rows under one weighting, from all sums ``[K]``, its block and its row in the block.
    """
    first = rows[0]
    if isinstance(first, Counts):
        names = [part.name for part in fields(first)]
        parts = [_stack([getattr(row, name) for row in rows], columns, lists) for name in names]
        kind = type(first)
        return lambda sums, weightings, row: kind(
            **{name: read(sums, weightings, row) for name, read in zip(names, parts, strict=True)}
        )
    begin = sum(column.shape[1] for column in columns)
    if isinstance(first, Values):
        numbers = SortedNumbers([row.numbers for row in rows])
        lists.append(numbers)
        columns.append(numbers.totals)
        return lambda sums, weightings, row: Values(numbers, weightings, row, sums[begin], sums[begin + 1])
    stacked = np.array(rows, float)
    columns.append(stacked.reshape(len(rows), -1))
    end = begin + columns[-1].shape[1]
    return lambda sums, *_: sums[begin] if stacked.ndim == 1 else tuple(sums[begin:end])


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``; nan if ``whole`` is 0."""
    return part / whole if whole else math.nan


def count_among(number: float, total: float) -> float:
    """Return ``number``, a part of ``total``; nan if the total is 0."""
    return float(number) if total else math.nan


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; nan without values."""
    return ratio(sum(values), len(values))


NUM_RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The ends of the middle 95 % of the resampled scores; nan without an interval."""

    low: float
    high: float

    def describe(self, *, sign: str = "") -> str:
        """Return both ends as text, with their signs for ``sign`` of ``+``; empty without an interval."""
        return "" if math.isnan(self.low) else f"[{self.low:{sign}.3f}, {self.high:{sign}.3f}]"


NO_INTERVAL = Interval(low=math.nan, high=math.nan)


def bootstrap(
    pool: Pool[C], score: Callable[[C], Mapping[str, float]], *, num_resamples: int = NUM_RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Return the interval of every score of a split; the same seed gives the same intervals.

    Resamples in which a score is undefined are left out. With fewer than two videos the intervals are nan.
    """
    if pool.num_videos < 2:
        return dict.fromkeys(score(pool.total()), NO_INTERVAL)
    resamples = draw_resamples(pool.num_videos, num_resamples=num_resamples, seed=seed)
    return find_intervals([score(total) for total in pool.totals(resamples)])


def draw_resamples(num_videos: int, *, num_resamples: int, seed: int) -> Iterator[Numbers]:
    """Yield, per resample of ``V`` videos with replacement, the number of times that each video is drawn, ``[V]``."""
    rng = np.random.default_rng(seed)
    probs = np.full(num_videos, 1 / num_videos)
    for _ in range(num_resamples):
        yield rng.multinomial(num_videos, probs).astype(float)


def find_intervals(resampled: Sequence[Mapping[str, float]]) -> dict[str, Interval]:
    """Return the middle 95 % of the defined values of each score."""
    if not resampled:
        return {}
    names = list(resampled[0])
    values = np.array([[scores[name] for name in names] for scores in resampled])  # [R, scores]
    levels = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    is_defined = ~np.isnan(values)
    is_whole = is_defined.all(axis=0)
    ends = np.full((2, len(names)), math.nan)
    if is_whole.any():
        ends[:, is_whole] = np.quantile(values[:, is_whole], levels, axis=0)
    for column in np.flatnonzero(is_defined.any(axis=0) & ~is_whole):
        ends[:, column] = np.quantile(values[is_defined[:, column], column], levels)
    return {name: Interval(low=low, high=high) for name, low, high in zip(names, *ends.tolist(), strict=True)}
