"""The order of the points of a grid, and the best of them."""

import math

import pytest

from stepscope.eval.sweeps.best_point import find_best
from stepscope.eval.sweeps.grid import Grid, GridScores, parse_axis


def make_scores(matrix: list[list[float]], *, metric: str = "dst_f1", split: str = "val.json") -> GridScores:
    """Return scores with one metric: rows by update threshold, columns by speak threshold, both 0.1, 0.2, ..."""
    grid = Grid(
        speak=tuple((1 + column) / 10 for column in range(len(matrix[0]))),
        update=tuple((1 + row) / 10 for row in range(len(matrix))),
    )
    values = [value for row in matrix for value in row]
    points = tuple({metric: value} for value in values)
    return GridScores(split=split, is_exact=True, grid=grid, points=points, num_videos=1, errors={})


def best(matrix: list[list[float]], *, metric: str = "dst_f1") -> tuple[float, float, int, int]:
    point = find_best(make_scores(matrix, metric=metric), metric)
    return point.speak_threshold, point.update_threshold, point.num_tied, point.num_plateau


def test_the_walk_goes_from_neighbour_to_neighbour() -> None:
    grid = Grid(speak=(0.1, 0.2), update=(0.3, 0.4, 0.5))
    pairs = list(grid.pairs())
    assert [pairs[place] for place in grid.snake_order()] == [
        (0.1, 0.3), (0.1, 0.4), (0.1, 0.5), (0.2, 0.5), (0.2, 0.4), (0.2, 0.3)
    ]  # fmt: skip


def test_a_single_best_point_is_the_best() -> None:
    assert best([[0.1, 0.9, 0.3], [0.4, 0.5, math.nan]]) == (0.2, 0.1, 1, 1)


def test_of_a_plateau_the_point_nearest_its_middle_is_taken() -> None:
    assert best([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]) == (0.2, 0.2, 9, 9)
    # an L of three cells, columns 1 1 2 and rows 1 2 2: the middle (4/3, 5/3) lies nearest its corner
    assert best([[1.0, 0.0], [1.0, 1.0]]) == (0.1, 0.2, 3, 3)


def test_of_two_plateaus_the_largest_is_taken() -> None:
    assert best([[1.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]]) == (0.4, 0.1, 4, 3)
    apart = [[1.0, 0.0], [0.0, 1.0]]
    assert best(apart) == (0.1, 0.1, 2, 1)  # corners do not touch: the first
    found = find_best(make_scores(apart, metric="dst_f1"), "dst_f1")
    assert found.ties == "2 points have this value; this is the first of them, as none are neighbours"


def test_the_registry_says_which_way_is_better() -> None:
    matrix = [[0.2, 0.4, -0.3, 1.1]]
    assert best(matrix) == (0.4, 0.1, 1, 1)  # higher
    assert best(matrix, metric="dst_abs_delay_s") == (0.3, 0.1, 1, 1)  # lower
    assert best([[3.0, 1.0, 2.0]], metric="num_failures") == (0.2, 0.1, 1, 1)
    assert str(find_best(make_scores([[3.0, 1.0]], metric="num_failures"), "num_failures")) == (
        "num_failures 1 at speak 0.2, update 0.1"
    )
    assert best(matrix, metric="dst_delay_s") == (0.1, 0.1, 1, 1)  # near 0
    assert best(matrix, metric="speaking_talk_ratio") == (0.4, 0.1, 1, 1)  # near 1
    with pytest.raises(ValueError, match="dst_num_predictions has no better or worse values"):
        best(matrix, metric="dst_num_predictions")
    with pytest.raises(ValueError, match="undefined at every point"):
        best([[math.nan, math.nan]])


def test_thresholds_are_read_as_a_range_or_a_list() -> None:
    assert parse_axis("0.1:0.9:9") == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    assert parse_axis("0.5,0.25,0.5") == (0.25, 0.5)
    assert parse_axis("0.3:0.3:4") == (0.3,)
