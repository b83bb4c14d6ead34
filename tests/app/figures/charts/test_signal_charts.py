"""Charts of the named signals of a recorded run, with numbers worked out by hand; see ``record_toy``."""

from typing import Any

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


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = record_toy(tmp_path_factory.mktemp("recorded") / "toy")
    run = RunFolder(folder)
    with no_java() as scorer:
        scored = score_run(folder, read_split(run.split_path()), SCORING, encode=count_letters, scorer=scorer)
        write_tables(folder, scored, run.settings() or {})
    found = read_results(folder)
    assert not found.problems
    return found


def traces(results: Results, chart: str, theme: Theme = "light") -> dict[str, Any]:
    return {str(trace.name): trace for trace in CHARTS[chart].draw(results, theme).data if trace.name}


def test_the_roc_chart_has_a_curve_for_each_signal_and_only_a_point_for_a_sum(results: Results) -> None:
    drawn = traces(results, "roc")
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


def test_thresholds_of_the_precision_recall_curve_are_those_of_the_signal(results: Results) -> None:
    falls = traces(results, "precision_recall")["not talk, average precision 1.000"]
    at = {
        text.split("<br>")[0]: (recall, precision)
        for text, recall, precision in zip(falls.text, falls.x, falls.y, strict=True)
    }
    assert at["not talk at threshold 0.66"] == (0.5, 1.0), "the falls are 0.6 and 0.7"
    assert at["not talk at threshold 0.5"] == (1.0, 1.0)


def test_only_probabilities_have_a_reliability(results: Results) -> None:
    (curve,) = [trace for trace in traces(results, "reliability").values() if trace.mode == "lines+markers"]
    assert curve.name.startswith("says &lt;yes&gt;, calibration error ")
    assert max(curve.y) == 1


def test_signals_differ_in_more_than_their_colour_and_are_part_of_the_summary(results: Results) -> None:
    drawn = traces(results, "roc", "dark")
    assert drawn["says &lt;yes&gt;, AUROC 1.000"].line.dash != drawn["not talk, AUROC 1.000"].line.dash
    summary = CHARTS["roc"].draw(results, "dark").layout.meta["summary"]
    assert "not talk: AUROC 1.000; this run precision 1.000, recall 1.000" in summary
