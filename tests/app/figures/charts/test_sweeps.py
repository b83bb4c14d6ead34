"""Charts of threshold sweeps."""

import math
from dataclasses import replace

import pytest

from stepscope.app.figures.charts.sweep_curves import SweepData, curves
from stepscope.app.figures.charts.sweeps import heat_map
from stepscope.engine.decisions.policies import POLICIES
from stepscope.eval.sweeps.best_point import PresentPoint
from stepscope.eval.sweeps.grid import Grid, GridScores

GRID = Grid(speak=(0.25, 0.75), update=(0.1, 0.5, 0.9))
VALUES = (0.2, 0.4, 0.6, 0.8, math.nan, 0.5)
"""By update threshold, then by speak threshold; the best is at speak 0.75, update 0.5."""
OWN = PresentPoint(thresholds=(0.5, 0.4), scores={"F1": 0.7})


def make_scores(metric: str, values: tuple[float, ...] = VALUES, *, is_exact: bool = False) -> GridScores:
    points = tuple({metric: value} for value in values)
    return GridScores(split="val.json", is_exact=is_exact, grid=GRID, points=points, num_videos=1, errors={})


def test_a_cell_has_its_score_and_its_thresholds() -> None:
    figure = heat_map(SweepData(scores=make_scores("F1"), present=OWN), "F1", "light")
    cells, exact, best, run = figure.data
    assert cells.z == ([0.2, 0.4], [0.6, 0.8], [None, 0.5])
    assert (cells.x, cells.y) == ((0.25, 0.75), (0.1, 0.5, 0.9))
    assert list(cells.customdata[1][1]) == [0.75, 0.5]
    assert cells.text[1][1] == "speak 0.75, update 0.5<br>Response F1 0.800"
    assert (best.x, best.y, run.x, run.y) == ((0.75,), (0.5,), (0.5,), (0.4,))
    assert len({best.marker.symbol, run.marker.symbol, exact.marker.symbol}) == 3
    assert exact.x == ()
    assert "1 undefined" in figure.layout.title.subtitle.text
    assert "Best: speak 0.75, update 0.5, Response F1 0.800. Worst: 0.200" in figure.layout.meta["summary"]


def test_the_axis_of_a_rule_with_theta_is_theta() -> None:
    scores = make_scores("F1")
    scores = replace(scores, grid=replace(scores.grid, policy=POLICIES["not-talk"]))
    data = SweepData(scores=scores, present=OWN)
    figure = heat_map(data, "F1", "light")
    cells, _, best, run = figure.data
    assert figure.layout.xaxis.title.text == "Theta"
    assert (cells.x, best.x, run.x) == ((0.75, 0.25), (0.25,), (0.5,))
    assert list(cells.customdata[1][1]) == [0.75, 0.5], "a click still gives the thresholds"
    assert cells.text[1][1] == "theta 0.25<br>Response F1 0.800"
    line = curves(data, "F1", "light")
    assert [(trace.name, trace.x) for trace in line.data] == [("theta", (0.75, 0.25))]
    assert line.layout.xaxis.title.text == "Theta"


def test_points_that_were_run_are_marked_on_a_preview() -> None:
    data = SweepData(scores=make_scores("F1"), exact_points={(0.5, 0.5): {"F1": 0.7}})
    figure = heat_map(data, "F1", "dark")
    assert figure.data[1].text == ("exact: speak 0.5, update 0.5<br>Response F1 0.700",)
    assert figure.data[1].marker.color == (0.7,)
    assert figure.layout.title.subtitle.text.startswith("Preview; squares: exact points")
    alone = heat_map(SweepData(scores=make_scores("F1", is_exact=True)), "F1", "dark")
    assert alone.layout.title.subtitle.text.startswith("Exact")


@pytest.mark.parametrize(
    ("metric", "is_reversed", "shades"),
    [("F1", False, [0.2, 0.4]), ("missing_rate", True, [0.2, 0.4]), ("speaking_talk_ratio", True, [0.8, 0.6])],
)
def test_the_best_scores_have_the_strongest_colour(metric: str, is_reversed: bool, shades: list[float]) -> None:
    figure = heat_map(SweepData(scores=make_scores(metric)), metric, "light")
    assert figure.layout.coloraxis.reversescale is is_reversed
    assert list(figure.data[0].z[0]) == pytest.approx(shades)


def test_curves_pass_through_the_best_point_and_leave_out_undefined_scores() -> None:
    speak, update = curves(SweepData(scores=make_scores("F1")), "F1", "light").data
    assert (speak.x, speak.y) == ((0.25, 0.75), (0.6, 0.8))
    assert (update.x, update.y) == ((0.1, 0.5, 0.9), (0.4, 0.8, 0.5))
    assert [list(pair) for pair in update.customdata] == [[0.75, 0.1], [0.75, 0.5], [0.75, 0.9]]
    low = make_scores("missing_rate", (0.5, 0.4, 0.6, 0.1, math.nan, math.nan))
    speak, update = curves(SweepData(scores=low), "missing_rate", "light").data
    assert (update.x, update.y) == ((0.1, 0.5), (0.4, 0.1))
    assert speak.line.dash != update.line.dash


def test_a_run_that_no_point_improves_on_is_the_best_mark_also_off_the_grid() -> None:
    data = SweepData(scores=make_scores("F1"), present=replace(OWN, scores={"F1": 0.8}))
    figure = heat_map(data, "F1", "light")
    *_, best = figure.data
    assert (best.name, best.x, best.y, best.marker.symbol) == ("best, this run", (0.5,), (0.4,), "star")
    assert "Best: speak 0.5, update 0.4, Response F1 0.800." in figure.layout.meta["summary"]
    speak, update = curves(data, "F1", "light").data
    assert (speak.name, speak.y, update.name) == ("speak, at update 0.5", (0.6, 0.8), "update, at speak 0.25")
