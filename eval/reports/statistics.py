"""Paired statistics of two runs of the same videos: differences (B minus A), intervals and p-values.

The paired bootstrap draws both runs of a video together; the permutation test swaps the runs of random videos. It is
exact if all swaps can be enumerated; otherwise the observed assignment is added to the drawn ones, so that no p-value
is 0. **Source**: Efron 1979; Fisher's permutation test; Phipson and Smyth 2010; Benjamini and Hochberg 1995.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

import numpy as np
from scipy.stats import false_discovery_control

from stepscope.eval.metrics.counts import NO_INTERVAL, NUM_RESAMPLES, C, Interval, Pool, draw_resamples, find_intervals
from stepscope.eval.metrics.definitions import BEST_VALUES, compute_loss
from stepscope.eval.metrics.failures import is_correct
from stepscope.eval.metrics.matched_video import JudgedVideo
from stepscope.eval.metrics.values import Numbers

SIGNIFICANCE_LEVEL: Final = 0.05
"""Two runs are separated where a p-value is below it."""
TESTS: Final = (
    "p: paired permutation test; corrected: Benjamini-Hochberg over all compared scores; times and memory have no p: "
    "all videos of a run share the load of its machine"
)
WrongIn = Literal["both", "only A", "only B", "neither"]
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One score of two runs; nan if undefined."""

    a: float
    b: float
    difference: float
    """B minus A; nan unless both are defined."""
    interval: Interval
    p_value: float
    """Share of permutations with a difference at least as large, in (0, 1]; nan if the difference is undefined."""
    distance_p_value: float | None = None
    """As ``p_value``, of the difference of the distances from the best value; None for a score without one."""
    corrected_p: float = math.nan
    """``p_value`` corrected over the scores compared together; nan for a score by itself."""
    corrected_better_p: float = math.nan
    """``better_p_value`` corrected likewise."""

    @property
    def better_p_value(self) -> float:
        """The p-value of one run being better: for a delay of -1 s against 1 s, a difference of 2 s, it is 1."""
        return self.p_value if self.distance_p_value is None else self.distance_p_value

    def columns(self) -> dict[str, float]:
        """Return the columns of a row for CSV and JSON."""
        values = {"a": self.a, "b": self.b, "difference": self.difference}
        return {**values, "low": self.interval.low, "high": self.interval.high, "p_value": self.p_value}


def correct_p_values(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return p-values that bound the share of false findings among them (Benjamini-Hochberg); nan stays nan.

    For 0.01, 0.02 and 0.9, they are 0.03, 0.03 and 0.9.
    """
    known = {key: value for key, value in p_values.items() if not math.isnan(value)}
    corrected = map(float, false_discovery_control(list(known.values())) if known else ())
    return {**p_values, **dict(zip(known, corrected, strict=True))}


def correct_differences(found: Mapping[str, Difference]) -> dict[str, Difference]:
    """Return differences that are shown together with their corrected p-values."""
    either = correct_p_values({name: one.p_value for name, one in found.items()})
    better = correct_p_values({name: one.better_p_value for name, one in found.items()})
    return {
        name: replace(one, corrected_p=either[name], corrected_better_p=better[name]) for name, one in found.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTurn:
    """One reference turn in both runs."""

    reference: int
    """Position in ``Sample.turns``."""
    wrong_in: WrongIn
    """The runs whose turn is missing, early, late, or of different content."""


def compare_scores(
    a: Sequence[C],
    b: Sequence[C],
    *,
    kind: type[C],
    score: Callable[[C], Mapping[str, float]],
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> dict[str, Difference]:
    """Compare the scores of two runs; ``a[i]`` and ``b[i]`` are the counts of one of ``V`` videos.

    Equal seeds give equal results. Intervals need at least two videos. Raises ``ValueError`` for runs of different
    length.
    """
    if len(a) != len(b):
        raise ValueError(f"both runs must have the same videos; got {len(a)} and {len(b)}")
    num_videos, pool = len(a), Pool([*a, *b], kind)

    def compare(groups: Iterable[tuple[Numbers, Numbers]]) -> list[tuple[Mapping[str, float], Mapping[str, float]]]:
        """Score pairs of groups with the given weights ``[V]`` of the runs in A and in B; the second swaps A and B.

        For V = 2, ``[1, 0], [0, 1]`` scores video 0 of A with video 1 of B, and video 0 of B with video 1 of A.
        """
        weightings = (np.append(*pair) for of_a, of_b in groups for pair in ((of_a, of_b), (of_b, of_a)))
        scores = map(score, pool.totals(weightings))
        return list(zip(scores, scores, strict=True))

    ones, zeros = np.ones(num_videos), np.zeros(num_videos)
    [(first, second)] = compare([(ones, zeros)])
    observed = {name: second[name] - first[name] for name in first}
    draws = draw_resamples(num_videos, num_resamples=num_resamples, seed=seed) if num_videos > 1 else ()
    intervals = find_intervals([_subtract(*pair) for pair in compare((weights, zeros) for weights in draws)])
    is_exact = num_videos < math.log2(num_resamples + 1)
    if is_exact:  # assignments [N, V], with 1 for a kept and 0 for a swapped video
        swaps = (np.arange(2**num_videos)[:, None] >> np.arange(num_videos)) & 1
    else:
        swaps = np.random.default_rng([seed, 1]).integers(2, size=(num_resamples, num_videos))
    permuted = compare((kept, 1 - kept) for kept in swaps.astype(float))
    differences = [_subtract(*pair) for pair in permuted]

    def test_distances(name: str) -> float:
        losses = ((compute_loss(name, a[name]), compute_loss(name, b[name])) for a, b in ((first, second), *permuted))
        known, *others = (of_b - of_a for of_a, of_b in losses)
        return _compute_p_value(known, others, is_exact=is_exact)

    return {
        name: Difference(
            a=first[name],
            b=second[name],
            difference=observed[name],
            interval=intervals.get(name, NO_INTERVAL),
            p_value=_compute_p_value(observed[name], [row[name] for row in differences], is_exact=is_exact),
            distance_p_value=test_distances(name) if name in BEST_VALUES else None,
        )
        for name in first
    }


def compare_turns(a: JudgedVideo, b: JudgedVideo, *, references: Sequence[int]) -> list[ComparedTurn]:
    """Return which run is wrong in each reference turn, given by position in ``Sample.turns``."""
    right_a, right_b = (
        {turn.reference for turn in judged.turns if is_correct(turn) and turn.reference is not None}
        for judged in (a, b)
    )
    labels: dict[tuple[bool, bool], WrongIn] = {
        (True, True): "neither",
        (False, True): "only A",
        (True, False): "only B",
        (False, False): "both",
    }
    return [
        ComparedTurn(reference=number, wrong_in=labels[number in right_a, number in right_b]) for number in references
    ]


def _subtract(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: b[name] - a[name] for name in a}


def _compute_p_value(observed: float, permuted: Sequence[float], *, is_exact: bool) -> float:
    if math.isnan(observed):
        return math.nan
    slack = 1e-12 + 1e-9 * abs(observed)  # sums in a different order differ in their last bits
    num_as_far = sum(abs(value) >= abs(observed) - slack for value in permuted if not math.isnan(value))
    num_defined = sum(not math.isnan(value) for value in permuted)
    return num_as_far / num_defined if is_exact else (1 + num_as_far) / (1 + num_defined)
