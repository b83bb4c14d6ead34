"""Tables of run folders of older versions are read with their present names."""

import json
import math
from pathlib import Path

from engine.io.files import write_csv
from eval.reports.table_files import read_metrics, read_video_rows


def test_the_column_remark_of_older_versions_is_read_as_warning(tmp_path: Path) -> None:
    (tmp_path / "videos.csv").write_text("video_id,error,remark,F1\na,,odd,0.5\nb,lost,,\n", encoding="utf-8")
    first, second = read_video_rows(tmp_path)
    assert first == {"video_id": "a", "error": "", "warning": "odd", "F1": 0.5}
    assert (second["error"], second["warning"]) == ("lost", "")
    assert math.isnan(float(second["F1"]))


def test_the_remarks_of_older_metrics_are_read_as_warnings(tmp_path: Path) -> None:
    content = {"scores": {}, "intervals": {}, "errors": {}, "remarks": {"a": "odd"}}
    (tmp_path / "metrics.json").write_text(json.dumps(content), encoding="utf-8")
    assert read_metrics(tmp_path)["warnings"] == {"a": "odd"}


def test_a_video_whose_name_is_like_a_formula_keeps_its_name(tmp_path: Path) -> None:
    write_csv(tmp_path / "videos.csv", [{"video_id": name, "error": ""} for name in ("=a", "'b", "c")])
    assert [row["video_id"] for row in read_video_rows(tmp_path)] == ["=a", "'b", "c"]
