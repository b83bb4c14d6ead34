"""Intervals over videos: known cases, and the coverage that 95 % promises."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from stepscope.eval.metrics.counts import Counts, Pool, bootstrap, ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits(Counts):
    hits: float = 0.0
    turns: float = 0.0


def score(counts: Hits) -> dict[str, float]:
    return {"rate": ratio(counts.hits, counts.turns), "never": math.nan}


def test_equal_videos_leave_no_doubt() -> None:
    interval = bootstrap(Pool([Hits(hits=3, turns=4)] * 5, Hits), score)["rate"]
    assert (interval.low, interval.high) == (0.75, 0.75)


def test_two_unequal_videos_are_drawn_alone_in_a_quarter_of_the_splits_each() -> None:
    interval = bootstrap(Pool([Hits(hits=0, turns=1), Hits(hits=1, turns=1)], Hits), score)["rate"]
    assert (interval.low, interval.high) == (0, 1)


def test_one_seed_gives_one_interval() -> None:
    pool = Pool([Hits(hits=number**0.5, turns=5) for number in range(20)], Hits)
    first, again, other = (bootstrap(pool, score, seed=seed)["rate"] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("num_videos", [0, 1])
def test_without_two_videos_there_is_no_interval(num_videos: int) -> None:
    interval = bootstrap(Pool([Hits(hits=1, turns=2)] * num_videos, Hits), score)["rate"]
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)


def test_splits_in_which_a_score_is_undefined_are_left_out() -> None:
    intervals = bootstrap(Pool([Hits(), Hits(hits=1, turns=2)], Hits), score)
    assert (intervals["rate"].low, intervals["rate"].high) == (0.5, 0.5)
    assert math.isnan(intervals["never"].low)


def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    random, covered = np.random.default_rng(0), 0
    for _ in range(200):
        rows = [Hits(hits=float(random.binomial(10, 0.6)), turns=10.0) for _ in range(40)]
        interval = bootstrap(Pool(rows, Hits), score, num_resamples=300)["rate"]
        covered += interval.low <= 0.6 <= interval.high
    assert 0.90 <= covered / 200 <= 0.98
