"""Confidence intervals of corpus scores: percentile bootstrap over videos.

A resample draws as many videos as the split has, with replacement, and scores their pooled counts. The unit is the
video, since frames and turns of one video are not independent. **Source**: Efron 1979.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.eval.metrics.counts import C, Pool
from stepscope.eval.metrics.values import Numbers

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
