"""Counts that add up: under weights, a video counts as often as if it were there so often."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.eval.metrics.counts import Counts, Pool
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
