"""Charts of decisions: their numbers are those of the scores."""

from dataclasses import replace

import numpy as np
import pytest

from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.style.colours import Theme
from stepscope.eval.reports.table_files import Results


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


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", CHARTS)
def test_each_chart_has_a_title_a_summary_and_no_tiny_text(results: Results, name: str, theme: Theme) -> None:
    figure = CHARTS[name].draw(results, theme)
    assert figure.layout.title.text == CHARTS[name].title
    assert figure.layout.meta["summary"]
    sizes = [figure.layout.xaxis.tickfont.size, figure.layout.yaxis.tickfont.size, figure.layout.legend.font.size]
    assert min(sizes) >= 11
    assert figure.data


def test_the_two_decisions_differ_in_more_than_their_colour(results: Results) -> None:
    speak, update = (
        next(trace for trace in CHARTS["roc"].draw(results, "dark").data if str(trace.name).startswith(f"{head}, "))
        for head in ("speak", "update")
    )
    assert speak.line.dash != update.line.dash


def test_a_run_without_probabilities_has_a_note_in_place_of_curves(without_probabilities: Results) -> None:
    figure = CHARTS["roc"].draw(without_probabilities, "light")
    assert [trace.name for trace in figure.data if trace.name] == ["update, AUROC 1.000", "update of this run"]
    nothing = CHARTS["precision_recall"].draw(Results(), "light")
    assert not nothing.data
    assert "No data" in nothing.layout.annotations[0].text


def test_charts_of_an_older_version_are_drawn_as_far_as_they_have_data(results: Results) -> None:
    old = {name: part for name, part in results.charts.items() if name not in ("roc", "operating_points")}
    figure = CHARTS["precision_recall"].draw(replace(results, charts=old), "light")
    assert [trace.mode for trace in figure.data] == ["lines", "lines"]
    roc = CHARTS["roc"].draw(replace(results, charts={**old, "roc": {}, "operating_points": {}}), "light")
    assert "score the run again" in roc.layout.annotations[0].text
