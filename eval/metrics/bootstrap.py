"""Confidence intervals of corpus scores: percentile bootstrap over videos.

A resample draws as many videos as the split has, with replacement, and scores their pooled counts. The unit is the
video, since frames and turns of one video are not independent. **Source**: Efron 1979.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eval.metrics.counts import C, Numbers, Pool

NUM_RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The ends of the middle 95 % of the resampled scores; nan without an interval."""

    low: float
    high: float


NO_INTERVAL = Interval(low=math.nan, high=math.nan)


def bootstrap(
    pool: Pool[C], score: Callable[[C], Mapping[str, float]], *, num_resamples: int = NUM_RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Return the interval of every score of a split; the same seed gives the same intervals.

    Resamples in which a score is undefined are left out. With fewer than two videos the intervals are nan.
    """
    if pool.num_videos < 2:
        return dict.fromkeys(score(pool.total()), NO_INTERVAL)
    drawn: dict[str, list[float]] = {}
    for weights in draw_resamples(pool.num_videos, num_resamples=num_resamples, seed=seed):
        for name, value in score(pool.total(weights)).items():
            drawn.setdefault(name, []).append(value)
    return {name: percentile_interval(values) for name, values in drawn.items()}


def draw_resamples(num_videos: int, *, num_resamples: int, seed: int) -> Iterator[Numbers]:
    """Yield, per resample of ``V`` videos with replacement, the number of times that each video is drawn, ``[V]``."""
    rng = np.random.default_rng(seed)
    probs = np.full(num_videos, 1 / num_videos)
    for _ in range(num_resamples):
        yield rng.multinomial(num_videos, probs).astype(float)


def percentile_interval(values: Sequence[float]) -> Interval:
    """Return the middle 95 % of the defined values."""
    defined = [value for value in values if not math.isnan(value)]
    if not defined:
        return NO_INTERVAL
    low, high = np.quantile(defined, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(low=float(low), high=float(high))
