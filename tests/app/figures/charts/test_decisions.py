"""Charts of decisions: their numbers are those of the scores."""

from typing import Any

import numpy as np
import pytest

from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.style.colours import Theme
from stepscope.eval.data.loading import read_split
from stepscope.eval.reports.scoring import score_run, write_tables
from stepscope.eval.reports.table_files import Results, read_results
from stepscope.eval.runs.folder import RunFolder
from tests.support.data.batches import SCORING, no_java
from tests.support.data.recorded import record_toy
from tests.support.streams.fakes import count_letters


def test_the_roc_chart_has_the_area_of_the_score_and_passes_through_the_corners(results: Results) -> None:
    """Of the pairs 0.9 and 0.4 against 0.6 and 0.2, three of four are in order."""
    figure = CHARTS["roc"].draw(results, "light")
    speak = next(trace for trace in figure.data if str(trace.name).startswith("speak, AUROC"))
    assert list(zip(speak.x, speak.y, strict=True)) == [(0, 0), (0, 0.5), (0.5, 0.5), (0.5, 1), (1, 1)]
    assert np.trapezoid(speak.y, speak.x) == pytest.approx(0.75)
    assert results.metrics["scores"]["speaking_auroc"] == pytest.approx(0.75)
    assert speak.name == "speak, AUROC 0.750"
    assert speak.text[1] == "speak at threshold 0.6<br>false positive rate 0.000<br>recall 0.500"


def test_the_point_of_the_run_lies_at_its_precision_and_recall(results: Results) -> None:
    """The run speaks at 0.9, expected, and at 0.6, not expected; 0.4 is missed and 0.2 rejected."""
    for name, at in (("precision_recall", (0.5, 0.5)), ("roc", (0.5, 0.5))):
        figure = CHARTS[name].draw(results, "light")
        point = next(trace for trace in figure.data if trace.name == "speak of this run")
        assert (*point.x, *point.y) == at
        assert point.text[0].startswith("this run: speak at threshold 0.5<br>")
        update = next(trace for trace in figure.data if trace.name == "update of this run")
        assert (*update.x, *update.y) == ((1, 1) if name == "precision_recall" else (0, 1))
    scores = results.metrics["scores"]
    assert (scores["speaking_precision"], scores["speaking_recall"]) == (0.5, 0.5)


def test_the_precision_recall_chart_has_a_point_for_each_threshold(results: Results) -> None:
    figure = CHARTS["precision_recall"].draw(results, "light")
    speak = figure.data[0]
    by_text = {text.split("<br>")[0]: at for text, *at in zip(speak.text, speak.x, speak.y, strict=True)}
    assert by_text["speak at threshold 0.5"] == [0.5, 0.5]
    assert by_text["speak at threshold 0.7"] == [0.5, 1.0]
    assert by_text["speak at threshold 0"] == [1.0, 0.5]


def test_a_run_without_probabilities_has_a_note_in_place_of_curves(without_probabilities: Results) -> None:
    figure = CHARTS["roc"].draw(without_probabilities, "light")
    assert [trace.name for trace in figure.data if trace.name] == ["update, AUROC 1.000", "update of this run"]
    nothing = CHARTS["precision_recall"].draw(Results(), "light")
    assert not nothing.data
    assert "No data" in nothing.layout.annotations[0].text


@pytest.fixture(scope="module")
def signal_results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = record_toy(tmp_path_factory.mktemp("recorded") / "toy")
    run = RunFolder(folder)
    with no_java() as scorer:
        scored = score_run(folder, read_split(run.split_path()), SCORING, encode=count_letters, scorer=scorer)
        write_tables(folder, scored, run.settings() or {})
    found = read_results(folder)
    assert not found.problems
    return found


def traces(signal_results: Results, chart: str, theme: Theme = "light") -> dict[str, Any]:
    return {str(trace.name): trace for trace in CHARTS[chart].draw(signal_results, theme).data if trace.name}


def test_the_roc_chart_has_a_curve_for_each_signal_and_only_a_point_for_a_sum(signal_results: Results) -> None:
    drawn = traces(signal_results, "roc")
    assert list(drawn) == [
        "says &lt;yes&gt;, AUROC 1.000",
        "says &lt;yes&gt; of this run",
        "not talk, AUROC 1.000",
        "not talk of this run",
        "informative of this run",
    ]
    # Above 1.6 the sum triggers at 3 s and 7 s: no reference, 2 of 6 other frames.
    informative = drawn["informative of this run"]
    assert (*informative.x, *informative.y) == pytest.approx((1 / 3, 0))
    assert informative.text[0].startswith("this run: informative at threshold 1.6<br>false positive rate 0.333")
    falls = drawn["not talk, AUROC 1.000"]
    assert falls.text[1].startswith("not talk at threshold 0<br>false positive rate 0.000<br>recall 1.000")


def test_only_probabilities_have_a_reliability(signal_results: Results) -> None:
    (curve,) = [trace for trace in traces(signal_results, "reliability").values() if trace.mode == "lines+markers"]
    assert curve.name.startswith("says &lt;yes&gt;, calibration error ")
    assert max(curve.y) == 1
