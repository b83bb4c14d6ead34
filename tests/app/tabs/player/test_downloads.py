import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.core.live_run import LiveRun
from stepscope.app.core.run import RUN_FILES, Run, file_name, write_run_file
from stepscope.app.tabs.player.downloads import export_run
from stepscope.app.web.component import STATIC
from stepscope.engine.records import read_outputs
from tests.support.reviews.played import make_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    settings = {"checkpoint": "tiny", "device": "cpu", "text_encoder": "letters", "text_encoder_digest": "feed"}
    return replace(make_run(tmp_path), settings=settings, model_digest="0123456789abcdef")


def export(live: LiveRun | None, content: str) -> Iterator[Any]:
    return export_run(live, SimpleNamespace(content=content))


def test_the_files_of_a_run_are_named_after_its_video_and_run(run: Run, tmp_path: Path) -> None:
    names = [write_run_file(tmp_path, run, content).name for content in RUN_FILES]
    assert names == [f"a-{run.digest}-{content}" for content in RUN_FILES]
    assert write_run_file(tmp_path, replace(run, name="first"), "traces.csv").name == "a-first-traces.csv"
    assert file_name("../../<b>", "x" * 300, "traces.csv").endswith("x-traces.csv")
    assert "/" not in file_name("../../<b>", "", "traces.csv")


def test_each_file_says_where_the_run_comes_from(run: Run, tmp_path: Path) -> None:
    traces, outputs, provenance = (write_run_file(tmp_path, run, content) for content in RUN_FILES)
    with traces.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert [row["response"] for row in rows if row["spoke"] == "1"] == [o.response for o in run.outputs if o.response]
    assert {row["run"] for row in rows} == {run.digest}
    assert read_outputs(outputs) == run.outputs
    said = json.loads(provenance.read_text(encoding="utf-8"))
    assert (said["run"], said["video_id"], said["task"]["goal"]) == (run.digest, "a", "build")
    assert (said["checkpoint"], said["text_encoder"], said["text_encoder_digest"]) == ("tiny", "letters", "feed")
    assert (said["model_digest"], said["device"], said["config"]["fps"]) == ("0123456789abcdef", "cpu", 2.0)


def test_an_export_is_deleted_once_the_page_has_its_copy(run: Run) -> None:
    exporting = export(LiveRun.finished(run), "traces.csv")
    path = Path(next(exporting))
    assert path.is_file()
    assert list(exporting) == []
    assert not path.exists()


@pytest.mark.parametrize(("live", "content"), [(None, "traces.csv"), ("run", "../x")])
def test_nothing_is_exported_without_a_run_or_of_another_kind(
    run: Run, live: str | None, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    monkeypatch.setattr("stepscope.app.tabs.player.downloads.gr.Warning", said.append)
    assert list(export(LiveRun.finished(run) if live else None, content)) == [None]
    assert said[0].startswith("there is no ")


ROWS = re.findall(
    r'^  \[\s*"([^"]+)",\s+"(\w[\w ]*)",\s', (STATIC / "commands.js").read_text(encoding="utf-8"), re.MULTILINE
)


def test_each_key_has_one_command() -> None:
    keys = [key for row, _ in ROWS for key in row.split()]
    assert len(keys) >= 50
    assert len(keys) == len(set(keys)), f"bound twice: {sorted({key for key in keys if keys.count(key) > 1})}"
