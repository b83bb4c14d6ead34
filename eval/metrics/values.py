"""Lists of numbers whose videos are weighted, such as the latencies of a split.

A bootstrap weights the videos of a split a thousand times. Quantiles and sums are computed for a block of weightings at
once: a sum over the sorted numbers is a product of a sparse matrix, ``[ranges, videos]``,
with all weightings of the block.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Numbers = NDArray[np.float64]
_CHUNK: Final = 256
"""Numbers of a range in which a quantile is looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Weightings:
    """A block of weightings of videos, with what was computed under them."""

    matrix: Numbers
    """``[R, V]``: the weight of each video in each weighting."""
    _computed: dict[Hashable, Any] = field(default_factory=dict)

    def compute(self, key: Hashable, call: Callable[[], Any]) -> Any:
        """Return the result of a call, which is made once per key."""
        if key not in self._computed:
            self._computed[key] = call()
        return self._computed[key]


class SortedNumbers:
    """The numbers of ``V`` videos, ascending.

    Attributes:
        numbers: All numbers, ``[N]``.
        video: The position of each one's video, ``[N]``.
        totals: Per video the number of its numbers, and their sum, ``[V, 2]``.
    """

    def __init__(self, videos: Sequence[Numbers]) -> None:
        numbers, sizes = np.concatenate(videos), [len(one) for one in videos]
        order = np.argsort(numbers, kind="stable")
        self.numbers = numbers[order]
        self.video = np.repeat(np.arange(len(videos)), sizes)[order]
        self.totals = np.column_stack((sizes, [one.sum() for one in videos]))
        self._ranges: dict[Hashable, tuple[Numbers, Any, NDArray[np.intp]]] = {}
        self._chunks: Any = None

    def sum_above(self, weightings: Weightings, edges: Numbers, *, or_equal: bool) -> Numbers:
        """Return the total weight of the numbers above each of ``E`` edges, or also of equal ones, ``[R, E]``."""
        side: Literal["left", "right"] = "left" if or_equal else "right"
        if len(weightings.matrix) == 1:  # a matrix for one product takes longer than the sums
            below = np.append(0.0, self._sums(weightings))
            single: Numbers = below[-1] - below[np.searchsorted(self.numbers, edges, side)]
            return single[None]
        key = id(edges), side
        if key not in self._ranges:  # the entry keeps the edges alive: Python reuses ids
            ends, places = np.unique(np.searchsorted(self.numbers, edges, side), return_inverse=True)
            self._ranges[key] = edges, self._cut([*ends.tolist(), len(self.numbers)]), places

        def compute() -> Numbers:
            _, ranges, places = self._ranges[key]
            below = (ranges @ weightings.matrix.T).cumsum(axis=0)  # [ranges, R]
            return np.ascontiguousarray((below[-1] - below[places]).T)

        above: Numbers = weightings.compute((self, *key), compute)
        return above

    def find(self, weightings: Weightings, wanted: Numbers, *, strictly: bool) -> Numbers:
        """Return the first number up to which the weights add up to ``wanted [R]``, or ``strictly`` to more, ``[R]``.

        If the weights never add up to it, return the last number. The list must not be empty.
        """
        last = len(self.numbers) - 1
        if len(weightings.matrix) == 1:
            place = np.searchsorted(self._sums(weightings), wanted, "right" if strictly else "left")
            single: Numbers = self.numbers[np.minimum(place, last)]
            return single

        def add_chunks() -> Numbers:
            if self._chunks is None:
                self._chunks = self._cut([*range(_CHUNK, len(self.numbers), _CHUNK), len(self.numbers)])
            sums: Numbers = (self._chunks @ weightings.matrix.T).cumsum(axis=0).T
            return sums

        is_before = np.less_equal if strictly else np.less
        reached: Numbers = weightings.compute((self, "chunks"), add_chunks)  # [R, chunks]
        chunk = np.minimum(is_before(reached, wanted[:, None]).sum(axis=1), reached.shape[1] - 1)
        rows = np.arange(len(chunk))
        places = chunk[:, None] * _CHUNK + np.arange(_CHUNK)  # [R, _CHUNK]
        weights = weightings.matrix[rows[:, None], self.video[np.minimum(places, last)]] * (places <= last)
        inside = np.where(chunk > 0, reached[rows, chunk - 1], 0.0)[:, None] + weights.cumsum(axis=1)
        found: Numbers = self.numbers[np.minimum(places[:, 0] + is_before(inside, wanted[:, None]).sum(axis=1), last)]
        return found

    def _sums(self, weightings: Weightings) -> Numbers:
        """Return the sums of the weights up to each number, ``[N]``, of a single weighting."""
        sums: Numbers = weightings.compute((self, "sums"), lambda: weightings.matrix[0, self.video].cumsum())
        return sums

    def _cut(self, ends: Sequence[int]) -> Any:
        """Return the matrix that adds the weights of ranges of the numbers, ``[ranges, V]``; each end ends one."""
        shape = len(ends), len(self.totals)
        ranges = csr_array((np.ones(len(self.video)), self.video, [0, *ends]), shape=shape, copy=True)
        ranges.sum_duplicates()  # in place
        return ranges


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A weighted list of numbers, such as latencies: those of a video, or of many under one weighting."""

    _sorted: SortedNumbers
    _weightings: Weightings
    _row: int
    total: float
    """Sum of the weights, which is the number of values."""
    _sum: float

    @classmethod
    def of(cls, numbers: Iterable[float] = ()) -> Self:
        """Return the numbers, given in any order, with weight 1 each."""
        made = SortedNumbers([np.fromiter(numbers, float)])
        return cls(made, Weightings(np.ones((1, 1))), 0, *made.totals[0].tolist())

    @property
    def numbers(self) -> Numbers:
        """All numbers, ascending, ``[N]``."""
        return self._sorted.numbers

    @property
    def weights(self) -> Numbers:
        """Their weights, ``[N]``."""
        weights: Numbers = self._weightings.matrix[self._row, self._sorted.video]
        return weights

    def above(self, edges: Numbers, *, or_equal: bool = False) -> Numbers:
        """Return, per edge ``[E]``, the total weight of the numbers that are greater, or also of equal ones.

        The edges must not be changed afterwards.
        """
        above: Numbers = self._sorted.sum_above(self._weightings, edges, or_equal=or_equal)[self._row]
        return above

    def mean(self) -> float:
        """Return the mean; nan without data."""
        return self._sum / self.total if self.total else math.nan

    def quantile(self, level: float) -> float:
        """Return the smallest number that at least the fraction ``level`` does not exceed; nan without data.

        Of 1, 2, 3, 4 the quantile at 0.5 is 2.
        """
        # The tolerances: rounding must not skip a number, and a number of weight 0 must not be returned.
        return self._find(("quantile", level), lambda totals: np.maximum(level * totals * (1 - 1e-12), 1e-12))

    def median(self) -> float:
        """Return the median, for an even count the mean of the two middle numbers; nan without data."""
        lower = self._find("lower median", lambda totals: totals / 2)
        return (lower + self._find("upper median", lambda totals: totals / 2, strictly=True)) / 2

    def _find(self, key: Hashable, wanted: Callable[[Numbers], Numbers], *, strictly: bool = False) -> float:
        """Return the number that ``SortedNumbers.find`` finds; nan without data."""
        if not self.total:
            return math.nan

        def compute() -> list[float]:
            totals = self._weightings.matrix @ self._sorted.totals[:, 0]
            found: list[float] = self._sorted.find(self._weightings, wanted(totals), strictly=strictly).tolist()
            return found

        found: list[float] = self._weightings.compute((self._sorted, key), compute)
        return found[self._row]
