"""Tables of run folders."""

from pathlib import Path

from stepscope.engine.io.files import write_csv
from stepscope.eval.reports.table_files import read_video_rows


def test_a_video_whose_name_is_like_a_formula_keeps_its_name(tmp_path: Path) -> None:
    write_csv(tmp_path / "videos.csv", [{"video_id": name, "error": ""} for name in ("=a", "'b", "c")])
    assert [row["video_id"] for row in read_video_rows(tmp_path)] == ["=a", "'b", "c"]
