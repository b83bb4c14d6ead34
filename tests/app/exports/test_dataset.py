"""Dataset folders of reviewed videos, as the library ``datasets`` loads them."""

from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.exports.rows import ROW_TYPES
from stepscope.app.exports.tabulate import build_tables
from stepscope.app.exports.writers import dataset
from stepscope.app.exports.writers.dataset import write_dataset
from stepscope.app.reviews.review import fold_actions
from stepscope.engine.errors import EngineError
from stepscope.eval.annotations.corrections import Correction
from tests.support.reviews.reviewed import NAMES, reviewed_video

MOVED = Correction(reviewer="=cmd()", kind="boundary", turn=NAMES[3], time_s=3.5)


def test_a_dataset_folder_has_a_configuration_per_table_that_holds_something(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[parquet]'")
    tables = build_tables([reviewed_video()])
    write_dataset(tmp_path, {"test": tables, "validation": replace(tables, states=())})
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    assert files == [
        "README.md",
        "predictions/test.parquet",
        "predictions/validation.parquet",
        "references/test.parquet",
        "references/validation.parquet",
        "states/test.parquet",
        "verdicts/test.parquet",
        "verdicts/validation.parquet",
    ]
    with pytest.raises(ValueError, match=r"a split name has letters, .* got '\.\./test'"):
        write_dataset(tmp_path, {"../test": tables})


def test_without_pyarrow_a_dataset_folder_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "pyarrow", None)
    with pytest.raises(EngineError, match=r"needs the package pyarrow: pip install '\.\[parquet\]'"):
        write_dataset(tmp_path, {})


def test_the_datasets_library_loads_every_table_with_its_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="the datasets library is not installed")
    like_a_time = replace(reviewed_video(MOVED), video_id="2026-01-02", review=fold_actions([]))
    tables = build_tables([reviewed_video(MOVED)])
    dated = build_tables([like_a_time])
    write_dataset(tmp_path / "folder", {"test": tables, "dated": dated})
    for name, row in ROW_TYPES.items():
        for split, wanted in (("test", tables), ("dated", dated)):
            if not getattr(wanted, name):
                continue
            loaded = datasets.load_dataset(
                str(tmp_path / "folder"), name, split=split, cache_dir=str(tmp_path / "cache")
            )
            records = [
                row(**{column: tuple(value) if isinstance(value, list) else value for column, value in record.items()})
                for record in loaded
            ]
            assert tuple(records) == getattr(wanted, name)
    assert str(loaded.features["time_s"].dtype) == "float64"
