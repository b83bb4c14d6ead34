"""Charts of a run other than its curves: their bars and points are the numbers of its tables."""

import math
from dataclasses import replace

import pytest

from stepscope.app.figures.charts.layout import MAX_NAME_CHARS
from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.figures.charts.sweep_curves import SweepData, curves
from stepscope.app.figures.charts.sweeps import heat_map
from stepscope.app.figures.charts.videos import score_distributions
from stepscope.engine.decisions.policies import POLICIES
from stepscope.eval.metrics.definitions import METRICS
from stepscope.eval.reports.table_files import Results
from stepscope.eval.sweeps.best_point import PresentPoint
from stepscope.eval.sweeps.grid import Grid, GridScores

ROWS: list[dict[str, str | float]] = [
    {"video_id": "a", "error": "", "F1": 0.5, "dst_f1": 1.0},
    {"video_id": "<b>b</b> & c", "error": "", "F1": 0.25, "dst_f1": 0.75},
    {"video_id": "undefined", "error": "", "F1": math.nan, "dst_f1": 0.75},
    {"video_id": "failed", "error": "no video", "F1": math.nan, "dst_f1": math.nan},
]


def test_the_reliability_chart_counts_the_frames_of_each_tenth(results: Results) -> None:
    """Probabilities 0.9 and 0.4 are expected, 0.6 and 0.2 are not: one frame in each of four tenths."""
    figure = CHARTS["reliability"].draw(results, "light")
    curve = next(trace for trace in figure.data if str(trace.name).startswith("speak"))
    assert (curve.x, curve.y) == (pytest.approx((0.2, 0.4, 0.6, 0.9)), (0, 1, 0, 1))
    bars = next(trace for trace in figure.data if trace.type == "bar")
    assert (bars.x, bars.y) == (pytest.approx((0.25, 0.45, 0.65, 0.95)), (1, 1, 1, 1))
    error = results.metrics["scores"]["speaking_ece"]
    assert error == pytest.approx((0.2 + 0.6 + 0.6 + 0.1) / 4)
    assert curve.name == f"speak, calibration error {error:.3f}"


def test_the_chart_of_roots_has_the_shares_of_the_diagnosis_and_each_root_once(diagnosed: Results) -> None:
    figure = CHARTS["roots"].draw(diagnosed, "light")
    shares, discs = figure.data
    assert dict(zip(shares.y, shares.x, strict=True)) == {
        "prompt: ids": 2 / 16, "prompt: order": 4 / 16, "unexplained": 10 / 16,
    }  # fmt: skip
    assert shares.x[2] + shares.error_x.array[2] == pytest.approx(0.842, abs=1e-3)
    assert shares.x[2] - shares.error_x.arrayminus[2] == pytest.approx(0.300, abs=1e-3)
    assert sum(map(int, discs.text)) == 16
    assert sum(int(number) * at for number, at in zip(discs.text, discs.x, strict=True)) == 34
    assert figure.layout.meta["summary"].startswith("34 failures (53%) follow from 16 first mistakes in 16 videos; ")


def test_the_chart_of_classes_has_the_commonest_names_then_the_causes_with_their_steps() -> None:
    steps = {"num_steps": 3.0, "completion_f1": 0.5, "start_recall_2s": math.nan}
    rows = [{"level": "cause", "name": "swap", **steps, "num_steps": 9.0}, {"level": "class", "name": "<b>", **steps}]
    rows += [{"level": "class", "name": f"step {number}", **steps, "num_steps": 1.0} for number in range(20)]
    figure = CHARTS["classes"].draw(Results(charts={"classes": rows}), "light")
    completions, starts = figure.data
    assert (completions.y[0], completions.y[-1], len(completions.y)) == ("&lt;b&gt;, 3", "cause: swap, 9", 9)
    assert (set(completions.x), starts.x) == ({0.5}, ())
    assert "The 8 commonest of 21 classes" in figure.layout.meta["summary"]
    empty = CHARTS["classes"].draw(Results(charts={}), "light")
    assert "no steps, or is not scored yet" in empty.layout.annotations[0].text


def test_the_chart_of_roots_is_empty_with_a_reason_without_a_current_diagnosis(diagnosed: Results) -> None:
    stale = [{**row, "roots": math.nan} if number == 3 else row for number, row in enumerate(diagnosed.rows)]
    for results, reason in (
        (replace(diagnosed, diagnosis=None), "No data: explain the run first."),
        (replace(diagnosed, rows=stale), "No data: the diagnosis is out of date: explain the run again."),
    ):
        figure = CHARTS["roots"].draw(results, "light")
        assert not figure.data
        assert figure.layout.annotations[0].text == reason


def test_leads_are_counted_by_half_seconds(results: Results) -> None:
    """The reference speaks at frames 0 and 1, the run at 0 and 2: half a second late."""
    figure = CHARTS["leads"].draw(results, "light")
    speak, update = figure.data
    assert (speak.x, speak.y) == ((0, 0.5), (1, 1))
    assert (update.x, update.y) == ((0,), (1,))
    assert speak.name == "speak, median 0.250 s"
    assert speak.marker.pattern.shape != update.marker.pattern.shape


def test_step_states_are_shares_of_frames(results: Results) -> None:
    shares = [{"right": 0.5, "behind": 0.25, "ahead": 0.25}, {"right": math.nan, "behind": math.nan, "ahead": math.nan}]
    behind, ahead = CHARTS["states"].draw(replace(results, charts={**results.charts, "states": shares}), "light").data
    assert (behind.x, behind.y, ahead.y) == (("step 1",), (0.25,), (0.25,))
    assert behind.marker.pattern.shape != ahead.marker.pattern.shape


def test_model_times_have_their_median_and_tail_and_are_not_called_latencies(results: Results) -> None:
    """The times are 10, 20, 30 and 40 ms."""
    figure = CHARTS["latency"].draw(results, "light")
    curve, marks = figure.data
    words = [figure.layout.title.text, figure.layout.title.subtitle.text, *(metric.label for metric in METRICS)]
    assert "First frames include the prompt" in words[1]
    assert not any("latency" in text.lower() for text in words), "passes are shared by frames and videos"
    assert (min(curve.x), max(curve.x)) == (10, 40)
    assert (marks.x, marks.y, marks.text) == ((20, 40), (0.5, 0.95), ("50%: 20.0 ms", "95%: 40.0 ms"))


def test_videos_with_undefined_scores_are_left_out_and_counted() -> None:
    figure = CHARTS["videos"].draw(Results(rows=ROWS), "light")
    (points,) = figure.data
    assert (points.customdata, points.x, points.y) == (("a", "<b>b</b> & c"), (0.5, 0.25), (1, 0.75))
    assert "Left out: 2 with undefined scores" in figure.layout.title.subtitle.text
    assert "Response F1 from 0.250 to 0.500, median 0.375; " in figure.layout.meta["summary"]


def test_markup_in_names_has_no_effect_and_long_names_are_cut() -> None:
    (points,) = CHARTS["videos"].draw(Results(rows=ROWS), "light").data
    assert points.text[1].startswith("&lt;b&gt;b&lt;/b&gt; &amp; c<br>")
    (cut,) = CHARTS["videos"].draw(Results(rows=[{**ROWS[0], "video_id": "x" * 500}]), "light").data
    assert len(cut.text[0].split("<br>")[0]) == MAX_NAME_CHARS
    assert cut.customdata == ("x" * 500,)


def test_the_runs_of_a_comparison_differ_in_colour_and_symbol_and_each_video_has_a_line() -> None:
    scores = [("a", 0.5, 1.0), ("b", 0.25, 0.25), ("c", math.nan, 1.0)]
    figure = score_distributions(scores, "F1", "light", names=("one", "<i>two</i>"))
    lines, _, a, _, b = figure.data
    assert lines.y == (0.5, 1.0, None, 0.25, 0.25, None)
    assert (a.y, b.y, b.customdata) == ((0.5, 0.25), (1.0, 0.25), ("a", "b"))
    assert (a.marker.symbol, a.marker.color) != (b.marker.symbol, b.marker.color)
    assert (a.name, b.name) == ("A: one", "B: &lt;i&gt;two&lt;/i&gt;")
    assert "1 with undefined scores" in figure.layout.title.subtitle.text
    assert not score_distributions([("a", math.nan, 1.0)], "F1", "light", names=("one", "two")).data


GRID = Grid(speak=(0.25, 0.75), update=(0.1, 0.5, 0.9))
VALUES = (0.2, 0.4, 0.6, 0.8, math.nan, 0.5)
"""By update threshold, then by speak threshold; the best is at speak 0.75, update 0.5."""
OWN = PresentPoint(thresholds=(0.5, 0.4), scores={"F1": 0.7})


def make_scores(metric: str, values: tuple[float, ...] = VALUES) -> GridScores:
    points = tuple({metric: value} for value in values)
    return GridScores(split="val.json", is_exact=False, grid=GRID, points=points, num_videos=1, errors={})


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
