"""Dataset folders of reviewed videos, as the library ``datasets`` loads them."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.app.exports import dataset
from stepscope.app.exports.dataset import write_dataset
from stepscope.app.exports.rows import ROW_TYPES, build_tables
from stepscope.app.reviews.actions import Action
from stepscope.app.reviews.review import fold_actions
from stepscope.app.reviews.store import open_store
from stepscope.app.tabs.reviews.query import write_zip
from stepscope.engine.errors import EngineError
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.loading import read_samples, read_split
from tests.support.paths import ROOT
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


SOURCE = ROOT / "tests" / "data" / "imports" / "gold.json"


def test_the_command_and_the_page_write_corrected_gold_answers_that_load_again(tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text(json.dumps(json.loads(SOURCE.read_text())[:1]))
    split = read_split(tmp_path / "gold.json")
    (sample,) = split.samples
    answer = name_turns(sample.turns)[1]
    changes = (
        Correction(reviewer="ann", kind="text", turn=answer, text="It boils."),
        Correction(reviewer="ann", kind="span", turn=answer, time_s=4.0, end_s=6.5),
    )
    actions = [Action(kind="correction", reviewer="ann", video_id="kettle", correction=change) for change in changes]
    with open_store(tmp_path / "reviews.sqlite") as store:
        stored = store.append_all(actions)
    video = replace(reviewed_video(sample=sample), video_id="kettle", review=fold_actions(stored))
    options = ["--format", "proactive-videoqa", "--reviews", str(tmp_path / "reviews.sqlite")]
    assert main(["export", "split", str(split.path), *options, "--out", str(tmp_path / "new.json")]) == 0
    (found,) = read_samples(tmp_path / "new.json")
    assert found == replace(sample, turns=(sample.turns[0], replace(sample.turns[1], text="It boils.", end_s=6.5)))

    content = "corrected split, as proactive-videoqa"
    written = write_zip(tmp_path, [video], content=content, split="gold", source=split)
    zipfile.ZipFile(written.path).extractall(tmp_path / "zip")
    assert (
        read_samples(tmp_path / "zip" / "gold-proactive-videoqa" / "gold.json", videos=tmp_path)[0].turns == found.turns
    )
