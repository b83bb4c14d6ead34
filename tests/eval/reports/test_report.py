"""The report of a split: intervals, undefined scores, and its three tables."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from stepscope.eval.metrics.counts import Interval
from stepscope.eval.metrics.decisions import count_decisions, summarize_decisions
from stepscope.eval.metrics.definitions import METRICS
from stepscope.eval.metrics.score import VideoCounts, analyze_video
from stepscope.eval.metrics.text import undefined_texts
from stepscope.eval.reports.charts import roc
from stepscope.eval.reports.scoring import make_report, make_video_row
from stepscope.eval.reports.tables import format_scores, write_columns
from tests.eval.metrics.test_score import SAMPLE, outputs
from tests.support.streams.fakes import count_letters


@pytest.fixture(scope="module")
def rows() -> list[VideoCounts]:
    right = outputs({0: "Go.", 4: "Good."}, {2: "S1->start", 4: "S1->complete"})
    silent = outputs({}, {})
    return [analyze_video(SAMPLE, run, encode=count_letters).counts for run in (right, silent)]


def test_a_report_has_the_pooled_scores_with_intervals(rows: list[VideoCounts]) -> None:
    report = make_report(rows, score_texts=undefined_texts, num_resamples=200)
    assert report.num_videos == 2
    assert report.scores["recall"] == pytest.approx(0.5)
    assert report.intervals["recall"] == Interval(low=0, high=1)
    assert not {metric.name for metric in METRICS if metric.is_count} & set(report.intervals)


def test_a_report_counts_the_videos_in_which_a_score_is_undefined(rows: list[VideoCounts]) -> None:
    report = make_report(rows, score_texts=undefined_texts, num_resamples=10)
    assert report.num_undefined["precision"] == 1  # the silent one has no response
    assert report.num_undefined["METEOR"] == report.num_undefined["live_fluency"] == 2
    assert "recall" not in report.num_undefined


def test_a_video_and_the_data_dictionary_have_the_same_columns(rows: list[VideoCounts], tmp_path: Path) -> None:
    scores = make_video_row("v", rows[0])
    write_columns(tmp_path / "columns.csv")
    columns = list(csv.DictReader((tmp_path / "columns.csv").read_text(encoding="utf-8").splitlines()))
    assert [column["column"] for column in columns] == [*scores, "scoring"][3:]
    assert "CIDEr_split_df" in scores
    assert "CIDEr" not in scores
    assert all(column["definition"].endswith(".") and column["range"] and column["source"] for column in columns[:-1])


def test_of_no_videos_everything_is_undefined_and_nothing_fails() -> None:
    report = make_report([], score_texts=undefined_texts)
    assert all(
        math.isnan(report.scores[metric.name])
        for metric in METRICS
        if not metric.is_count and metric.name in report.scores
    )
    assert json.dumps(format_scores(report.scores, report.intervals))


def test_the_area_of_the_roc_curve_is_the_score_also_with_ties() -> None:
    rng = np.random.default_rng(1)
    expected = rng.random(200) < 0.3
    probs = np.clip(rng.random(200) * 0.7 + 0.3 * expected, 0, 1).round(1)
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
