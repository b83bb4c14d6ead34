"""The bundled run on the batch tab: shown when there is no other, and never written."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.context import AppContext
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.core.saved import BUNDLED_NAME
from stepscope.app.opening.saved_runs import open_video
from stepscope.app.tabs.batch.runs import handlers
from stepscope.app.tabs.batch.runs.downloads import write_table
from tests.support.pages.batch_tab import make_jobs, start, wait_for


@pytest.fixture
def empty(finished: BatchContext, tmp_path: Path) -> BatchContext:
    """Return a page without runs of its own, whose bundled run is ``a`` of ``finished``."""
    return replace(finished, jobs=make_jobs(), runs=tmp_path / "runs", bundled=finished.runs / "a")


def list_files(folder: Path | None) -> dict[str, int]:
    assert folder is not None
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_the_tab_opens_with_the_bundled_run(empty: BatchContext, context: AppContext) -> None:
    view = handlers.enter(empty, None, "as in the split")
    assert (view.shown.name, view.runs.value) == (BUNDLED_NAME, BUNDLED_NAME)
    event: Any = SimpleNamespace(row_value=["v1"])
    shown = open_video(context, empty, None, BUNDLED_NAME, event)
    assert "v1 in the run bundled" in shown.run.status.value


def test_line_and_downloads_of_the_bundled_run_have_its_name_on_the_page(empty: BatchContext, tmp_path: Path) -> None:
    assert "<summary>run bundled · split " in handlers.enter(empty, None, "as in the split").origin
    for table in ("provenance.json", "traces.csv"):
        written = write_table(tmp_path, empty, BUNDLED_NAME, table).read_text(encoding="utf-8")
        assert BUNDLED_NAME in written


def test_a_start_with_the_settings_of_the_bundled_run_makes_a_run(empty: BatchContext) -> None:
    before = list_files(empty.bundled)
    start(empty, name="", speak=0.0)
    name = empty.run_names()[0]
    wait_for(empty, name, "done")
    assert empty.run_names() == [name, BUNDLED_NAME]
    assert (empty.runs / name / "metrics.json").is_file()
    assert list_files(empty.bundled) == before


def test_a_run_of_the_user_goes_before_the_bundled_one_of_its_name(empty: BatchContext) -> None:
    own = empty.runs / BUNDLED_NAME
    own.mkdir(parents=True)
    (own / "run.json").write_text("{}")
    assert empty.run_names() == [BUNDLED_NAME]
    assert empty.folder(BUNDLED_NAME) == own
