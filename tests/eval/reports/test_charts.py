"""The data of the charts against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from stepscope.eval.metrics.decisions import count_decisions, summarize_decisions
from stepscope.eval.reports.charts import MAX_ROC_POINTS, roc


@pytest.mark.parametrize("digits", [1, 6])
def test_the_area_of_the_roc_curve_is_the_score_also_with_ties(digits: int) -> None:
    rng = np.random.default_rng(digits)
    expected = rng.random(200) < 0.3
    probs = np.clip(rng.random(200) * 0.7 + 0.3 * expected, 0, 1).round(digits)
    counts = count_decisions(
        probs.tolist(), (probs > 0.5).tolist(), expected_frames=np.flatnonzero(expected).tolist(), fps=2.0
    )
    points = roc(counts)
    area = np.trapezoid([point["recall"] for point in points], [point["false_positive_rate"] for point in points])
    assert area == pytest.approx(roc_auc_score(expected, probs))
    assert area == pytest.approx(summarize_decisions(counts)["auroc"])
    for point in points[:-1]:
        decided = probs > point["threshold"]
        assert point["recall"] == pytest.approx(decided[expected].mean())
        assert point["false_positive_rate"] == pytest.approx(decided[~expected].mean())
    assert math.isnan(points[-1]["threshold"])


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    rng = np.random.default_rng(0)
    probs, frames = rng.random(5000).tolist(), rng.choice(5000, 2000, replace=False).tolist()
    points = roc(count_decisions(probs, [False] * 5000, expected_frames=frames, fps=2.0))
    assert len(points) == MAX_ROC_POINTS
    rates = [(point["false_positive_rate"], point["recall"]) for point in points]
    assert (rates[0], rates[-1]) == ((0, 0), (1, 1))
    assert rates == sorted(rates)


def test_frames_of_one_class_have_no_curve() -> None:
    assert roc(count_decisions([0.2, 0.8], [False, True], expected_frames=[], fps=2.0)) == []
