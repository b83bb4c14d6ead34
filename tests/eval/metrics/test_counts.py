"""Counts that add up: under weights, a video counts as often as if it were there so often."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.eval.metrics.counts import Counts, Pool, bootstrap, ratio
from stepscope.eval.metrics.values import Values

numbers = st.lists(st.floats(-100, 100), max_size=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner(Counts):
    total: float = 0.0
    values: Values = field(default_factory=Values.of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Counts):
    count: int = 0
    tenths: tuple[float, ...] = (0.0, 0.0)
    inner: Inner = field(default_factory=Inner)


def outer(values: list[float]) -> Outer:
    return Outer(count=len(values), tenths=(1.0, len(values)), inner=Inner(total=sum(values), values=Values.of(values)))


@given(st.lists(st.tuples(numbers, st.integers(0, 3)), min_size=1, max_size=5))
def test_a_weight_counts_a_video_so_often(videos: list[tuple[list[float], int]]) -> None:
    rows = [outer(values) for values, _ in videos]
    weighted = Pool(rows, Outer).total(np.array([weight for _, weight in videos], float))
    repeated = Pool([row for row, (_, weight) in zip(rows, videos, strict=True) for _ in range(weight)], Outer).total()
    assert (weighted.count, weighted.tenths) == (repeated.count, repeated.tenths)
    assert weighted.inner.total == pytest.approx(repeated.inner.total)
    ours, theirs = weighted.inner.values, repeated.inner.values
    assert ours.total == theirs.total
    for level in (0.0, 0.05, 0.5, 0.95, 1.0):
        assert ours.quantile(level) == pytest.approx(theirs.quantile(level), nan_ok=True)
    assert (ours.mean(), ours.median()) == pytest.approx((theirs.mean(), theirs.median()), nan_ok=True)


def test_of_nothing_every_value_is_nan_and_every_count_zero() -> None:
    empty = Pool([], Outer).total()
    assert (empty.count, empty.tenths, empty.inner.values.total) == (0, (0, 0), 0)
    assert all(np.isnan(value) for value in (empty.inner.values.mean(), empty.inner.values.median()))
    assert np.isnan(empty.inner.values.quantile(0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits(Counts):
    hits: float = 0.0
    turns: float = 0.0


def score(counts: Hits) -> dict[str, float]:
    return {"rate": ratio(counts.hits, counts.turns), "never": math.nan}


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


SIZES = (0, 700, 1, 300, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed(Counts):
    times: Values = field(default_factory=Values.of)
    edges: Values = field(default_factory=Values.of)


def make_lists() -> list[tuple[list[float], list[float]]]:
    """Return times, with ties and long enough for several ranges, and edges of videos."""
    random = np.random.default_rng(0)
    sizes = [(size, size // 30) for size in SIZES]
    return [(draw(random, num_times), draw(random, num_edges)) for num_times, num_edges in sizes]


def draw(random: np.random.Generator, size: int) -> list[float]:
    return [float(number) for number in random.integers(-50, 50, size)]


def make_weightings(number: int) -> np.ndarray:
    """Return weightings ``[R, V]``, the first of which leaves every number out."""
    weightings = np.random.default_rng(1).integers(0, 3, (number, len(SIZES))).astype(float)
    weightings[0] = 0
    return weightings


@pytest.mark.parametrize("num_weightings", [1, 150])
def test_each_weighting_gives_the_numbers_so_often(num_weightings: int) -> None:
    lists, weightings = make_lists(), make_weightings(num_weightings)
    pool = Pool([Timed(times=Values.of(times), edges=Values.of(edges)) for times, edges in lists], Timed)
    totals = list(pool.totals(weightings))
    assert len(totals) == num_weightings
    for weights, found in zip(weightings, totals, strict=True):
        often = [np.repeat(times, int(weight)) for (times, _), weight in zip(lists, weights, strict=True)]
        repeated = np.sort(np.concatenate(often))
        assert found.times.total == len(repeated)
        assert np.repeat(found.times.numbers, found.times.weights.astype(int)).tolist() == repeated.tolist()
        expected = [np.mean(repeated), np.median(repeated)] if len(repeated) else [np.nan, np.nan]
        assert [found.times.mean(), found.times.median()] == pytest.approx(expected, nan_ok=True)
        for level in (0.0, 0.05, 0.5, 0.95, 1.0):
            quantile = np.quantile(repeated, level, method="inverted_cdf") if len(repeated) else np.nan
            assert found.times.quantile(level) == pytest.approx(quantile, abs=0, nan_ok=True)
        for edges in (found.edges.numbers, np.array([3.0, -7.5, 3.0, 99.0, -99.0])):
            assert found.times.above(edges).tolist() == [(repeated > edge).sum() for edge in edges]
            assert found.times.above(edges, or_equal=True).tolist() == [(repeated >= edge).sum() for edge in edges]
