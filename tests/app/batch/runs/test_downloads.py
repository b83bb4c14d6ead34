"""What the batch tab hands out of a run folder."""

import csv
import json
import shutil
from pathlib import Path
from zipfile import ZipFile

from stepscope.app.batch.runs.files import TABLES, export
from stepscope.app.core.batch_context import BatchContext
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.provenance import hide_folders
from tests.support.pages.batch_tab import select
from tests.support.paths import ASSETS


def test_each_download_is_named_after_its_run_and_says_where_it_comes_from(
    finished: BatchContext, tmp_path: Path
) -> None:
    shutil.copy(ASSETS / "demo" / "run" / "diagnosis.csv", finished.runs / "a")
    for table in TABLES:
        asked = export(finished, [table], select("a"))
        path = Path(next(asked))
        assert path.name == f"a-{table}"
        shutil.copy(path, tmp_path)
        assert str(finished.splits["split"].path.parent) not in path.read_text(), (
            "others need not see the folders of the server"
        )
        assert list(asked) == []
        assert not path.exists()
    exported = export(finished, TABLES, select("a"))  # its file exists as long as it does
    with ZipFile(next(exported)) as archive:
        assert archive.namelist() == [f"a-{table}" for table in TABLES]
    run = finished.runs / "a"
    digest = RunFolder(run).settings()["model_digest"]  # type: ignore[index]
    source = json.loads((tmp_path / "a-provenance.json").read_text())
    assert (source["judge"], source["text_encoder"]) == ("cosine bands 0.5/0.8", "letters")
    assert (source["model_digest"], source["device"], source["config"]["speak_threshold"]) == (digest, "cpu", 0.0)
    for table in ("metrics.json", "charts.json"):
        content = json.loads((tmp_path / f"a-{table}").read_text())
        assert content.pop("provenance") == source
        assert content == hide_folders(json.loads((run / table).read_text()))
    for table in ("diagnosis.csv", "videos.csv"):
        rows, kept = (read_rows(path) for path in (tmp_path / f"a-{table}", run / table))
        assert [{name: row[name] for name in kept[0]} for row in rows] == kept
    assert {(row["run"], row["model_digest"], row["speak_threshold"]) for row in rows} == {("a", digest, "0.0")}
    assert all(
        row["scoring"].startswith("contents judged by cosine bands 0.5/0.8, text encoder letters") for row in kept
    )
    columns = {row["column"] for row in read_rows(tmp_path / "a-columns.csv")}
    assert set(rows[0]) <= columns | {"video_id", "error", "warning"}
    traces = read_rows(tmp_path / "a-traces.csv")
    frames = {sample.video_id: sample.num_frames for sample in finished.splits["split"].samples}
    assert {name: sum(row["video_id"] == name for row in traces) for name in frames} == frames


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
