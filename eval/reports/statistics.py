"""Two runs of the same videos held against each other: what differs, by how much, and whether chance would do it.

The video is the unit. Differences are B minus A of the pooled scores; their intervals come from a paired bootstrap,
which draws both runs of a video or neither, and their p-values from a permutation test, which asks how often runs that
were exchanged at random video by video lie as far apart. **Source**: Efron 1979; Fisher's permutation test, exact where
all orders can be tried (the observed one is among them), otherwise with the observed order counted beside those drawn
(Phipson and Smyth 2010), so that no p-value is 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eval.metrics.bootstrap import NO_INTERVAL, NUM_RESAMPLES, Interval, draw_resamples, percentile_interval
from eval.metrics.counts import C, Numbers, Pool
from eval.metrics.failures import JudgedVideo, is_correct

Who = Literal["both", "only A", "only B", "neither"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One score of two runs."""

    a: float
    """Score of run A; nan where undefined."""
    b: float
    """Score of run B."""
    difference: float
    """B minus A; nan unless both are defined."""
    interval: Interval
    """Of the difference, 95 %."""
    p_value: float
    """Share of random exchanges that lie as far apart, in (0, 1]; nan where the difference is undefined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTurn:
    """One reference turn in both runs."""

    reference: int
    """Position in ``Sample.turns``."""
    wrong_in: Who
    """Which run missed it, said or updated something else, or was early or late."""


def compare_scores(
    a: Sequence[C],
    b: Sequence[C],
    *,
    kind: type[C],
    score: Callable[[C], Mapping[str, float]],
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> dict[str, Difference]:
    """Compare the scores of two runs; ``a[i]`` and ``b[i]`` are the counts of one video of ``V``.

    The same seed gives the same answer. Without two videos there are no intervals. Raises ``ValueError`` for runs of
    different length.
    """
    if len(a) != len(b):
        raise ValueError(f"both runs must have the same videos; got {len(a)} and {len(b)}")
    num_videos, pool = len(a), Pool([*a, *b], kind)

    def scores(of_a: Numbers, of_b: Numbers) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Score two groups of runs: how often each run of A and of B is in the one; it is in the other exchanged."""
        return score(pool.total(np.append(of_a, of_b))), score(pool.total(np.append(of_b, of_a)))

    ones, zeros = np.ones(num_videos), np.zeros(num_videos)
    first, second = scores(ones, zeros)
    observed = {name: second[name] - first[name] for name in first}
    drawn = [
        _subtract(*scores(weights, zeros))
        for weights in (draw_resamples(num_videos, num_resamples=num_resamples, seed=seed) if num_videos > 1 else ())
    ]
    random = np.random.default_rng([seed, 1])
    exchanges = _all_orders(num_videos) if num_videos < math.log2(num_resamples + 1) else None
    is_exact = exchanges is not None
    exchanged = [
        _subtract(*scores(kept, 1 - kept)) for kept in exchanges or _draw_orders(random, num_videos, num_resamples)
    ]
    return {
        name: Difference(
            a=first[name],
            b=second[name],
            difference=observed[name],
            interval=percentile_interval([row[name] for row in drawn]) if drawn else NO_INTERVAL,
            p_value=_p_value(observed[name], [row[name] for row in exchanged], is_exact=is_exact),
        )
        for name in first
    }


def compare_turns(a: JudgedVideo, b: JudgedVideo, *, references: Sequence[int]) -> list[ComparedTurn]:
    """Say of reference turns, by position in ``Sample.turns``, which run got them wrong."""
    right_a, right_b = (
        {turn.reference for turn in judged.turns if is_correct(turn) and turn.reference is not None}
        for judged in (a, b)
    )
    words: dict[tuple[bool, bool], Who] = {
        (True, True): "neither",
        (False, True): "only A",
        (True, False): "only B",
        (False, False): "both",
    }
    return [
        ComparedTurn(reference=number, wrong_in=words[number in right_a, number in right_b]) for number in references
    ]


def _subtract(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: b[name] - a[name] for name in a}


def _all_orders(num_videos: int) -> list[Numbers]:
    """Return all ways to keep the order of some videos, ``[V]`` of 0 and 1."""
    return [((number >> np.arange(num_videos)) & 1).astype(float) for number in range(2**num_videos)]


def _draw_orders(random: np.random.Generator, num_videos: int, count: int) -> list[Numbers]:
    """Draw which videos keep their order, ``[V]`` of 0 and 1."""
    return [random.integers(2, size=num_videos).astype(float) for _ in range(count)]


def _p_value(observed: float, exchanged: Sequence[float], *, is_exact: bool) -> float:
    if math.isnan(observed):
        return math.nan
    slack = 1e-12 + 1e-9 * abs(observed)  # sums in another order differ in their last bits
    as_far = sum(abs(value) >= abs(observed) - slack for value in exchanged if not math.isnan(value))
    defined = sum(not math.isnan(value) for value in exchanged)
    return as_far / defined if is_exact else (1 + as_far) / (1 + defined)
