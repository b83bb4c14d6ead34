"""The table of the videos of a run."""

import math
from pathlib import Path

import pytest

from stepscope.app.core.results import NOT_MEASURED, VIDEO_COLUMNS, draw_corpus, score_groups, video_table
from stepscope.eval.reports.table_files import read_results

ROWS: list[dict[str, str | float]] = [
    {
        "video_id": name,
        "error": "",
        "warning": "",
        **dict.fromkeys(VIDEO_COLUMNS, 0.5),
        "F1": f1,
        "redundant_rate": rate,
    }
    for name, f1, rate in (("a", 0.9, 0.1), ("b", 0.2, 0.0), ("c", math.nan, math.nan), ("d", 0.4, 0.8))
]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("as in the split", "abcd"),
        ("worst responses", "bdac"),
        ("most redundant", "dabc"),
        ("only failed", ""),
        ("unknown", "abcd"),
    ],
)
def test_the_table_of_videos_is_sorted_and_filtered(order: str, names: str) -> None:
    table = video_table(ROWS, order)
    assert "".join(str(row[0]) for row in table) == names
    assert all(cell is None or not (isinstance(cell, float) and math.isnan(cell)) for row in table for cell in row)


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text("[", encoding="utf-8")
    (tmp_path / "charts.json").write_text("[]", encoding="utf-8")
    results = read_results(tmp_path)
    assert (list(results.rows), dict(results.metrics), dict(results.charts)) == ([], {}, {})
    assert draw_corpus(results.metrics) == ""


def test_a_table_with_more_or_fewer_columns_is_shown(tmp_path: Path) -> None:
    (tmp_path / "videos.csv").write_text("video_id,error,F1\na,,0.9,more\nb,\nc,,0.2\n", encoding="utf-8")
    rows = read_results(tmp_path).rows
    assert [row[0] for row in video_table(rows, "worst responses")] == ["c", "a", "b"]
    assert [row[0] for row in video_table(rows, "most missed")] == ["a", "b", "c"]


def test_undefined_scores_are_last_and_a_group_of_them_is_a_note() -> None:
    scores = {"F1": None, "missing_rate": 0.5, "span_coverage": None, "num_frames": 8.0, "live_fluency": None}
    groups = score_groups({"scores": scores, "intervals": {}})
    assert [(group.name, [row.score for row in group.rows], group.note) for group in groups] == [
        ("Turn-taking", ["0.500", "undefined"], ""),
        ("System", ["8"], ""),
        ("Reply spans", [], "undefined: Spans covered"),
        ("Teacher-forced", [], NOT_MEASURED),
    ]
    drawn = draw_corpus({"scores": scores})
    assert (drawn.count("<details"), drawn.count(" open>"), drawn.count('scope="col"')) == (4, 2, 2 * 3)
