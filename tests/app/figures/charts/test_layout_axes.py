"""Axes that several charts share."""

from stepscope.app.figures.charts.layout import log_axis


def test_the_ticks_of_a_logarithmic_axis_are_whole_numbers() -> None:
    axis = log_axis([7.0, 0.0, 130.0])
    assert (
        axis["ticktext"]
        == ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1,000", "2,000", "5,000"][: len(axis["ticktext"])]
    )
    assert axis["tickvals"][3:7] == [10, 20, 50, 100]
    assert axis["tickvals"][-1] >= 130


def test_a_logarithmic_axis_of_many_powers_has_ticks_at_these_alone() -> None:
    assert log_axis([0.001, 100.0])["ticktext"][:4] == ["0.001", "0.01", "0.1", "1"]
    assert log_axis([])["tickvals"][0] == 1
