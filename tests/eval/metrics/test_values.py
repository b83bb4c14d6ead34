"""Lists of numbers under many weightings: what each gives is what the numbers give that are there so often."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from stepscope.eval.metrics.counts import Counts, Pool
from stepscope.eval.metrics.values import Values

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


@pytest.mark.parametrize("num_weightings", [1, 2, 150])
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


def test_the_numbers_may_be_asked_in_any_order_of_the_weightings() -> None:
    lists, weightings = make_lists(), make_weightings(20)
    pool = Pool([Timed(times=Values.of(times), edges=Values.of(edges)) for times, edges in lists], Timed)
    together = list(pool.totals(weightings))
    for weights, found in reversed(list(zip(weightings, together, strict=True))):
        alone = pool.total(weights)
        assert alone.times.above(alone.edges.numbers).tolist() == found.times.above(found.edges.numbers).tolist()
        assert alone.times.quantile(0.9) == pytest.approx(found.times.quantile(0.9), abs=0, nan_ok=True)
