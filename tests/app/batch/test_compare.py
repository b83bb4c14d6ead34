"""The table of scores of two runs held against each other."""

import math
import re

import pytest

from app.batch.compare import draw_differences
from eval.metrics.bootstrap import Interval
from eval.reports.statistics import Difference


def difference(
    a: float, b: float, *, low: float = math.nan, high: float = math.nan, p_value: float = 1.0
) -> Difference:
    return Difference(a=a, b=b, difference=b - a, interval=Interval(low=low, high=high), p_value=p_value)


def cells(markup: str) -> list[list[str]]:
    rows = [re.findall("<td>(.*?)</td>", row) for row in markup.split("<tr")]
    return [[re.sub("<.*?>", "", cell) for cell in row] for row in rows if row]


def test_a_number_of_failures_is_written_as_a_whole_number_and_says_which_run_is_better() -> None:
    drawn = draw_differences({"num_failures": difference(12.0, 9.0, low=-5.0, high=-1.0, p_value=0.01)})
    assert cells(drawn) == [["Failures", "12", "9", "-3", "-5 to -1", "0.010", "B is better"]]


@pytest.mark.parametrize(("b", "change"), [(0.5, "0.000"), (0.4999, "0.000"), (0.51, "+0.010"), (0.49, "-0.010")])
def test_a_change_has_a_sign_unless_it_rounds_to_nothing(b: float, change: str) -> None:
    ((_, _, _, said, interval, *_),) = cells(draw_differences({"F1": difference(0.5, b, low=-1e-9, high=0.02)}))
    assert (said, interval) == (change, "0.000 to 0.020")


def test_nothing_is_drawn_of_no_scores() -> None:
    assert draw_differences({}) == ""
