"""Result files of another system in the batch tab, without a browser."""

import json
import shutil
from pathlib import Path

import pytest

from stepscope.app.core.batch_context import BatchContext
from stepscope.app.tabs.batch.new_run.start import check_files, import_files
from stepscope.app.tabs.batch.runs import handlers
from tests.support.pages.batch_tab import make_batches, wait_for
from tests.support.paths import ROOT

DATA = ROOT / "tests" / "data" / "imports"
ORDER = "as in the split"
NO_RULE = (None, "above", "")
RULE = ("informative_score", "running-sum", "2")


@pytest.fixture
def page(tiny_folder: Path, tmp_path: Path) -> BatchContext:
    return make_batches(DATA / "gold.json", checkpoint=tiny_folder, runs=tmp_path / "runs")


def test_uploaded_results_become_a_scored_run_that_names_what_is_missing(page: BatchContext, tmp_path: Path) -> None:
    upload = Path(shutil.copy(DATA / "mmduet.jsonl", tmp_path / "a.jsonl"))
    with upload.open("a") as file:
        file.write("{\n")
    view = import_files(page, "gold", [str(upload)], "mmduet", *RULE, ORDER)
    assert view.problem.value == ""
    job = wait_for(page, "mmduet", "done", "failed")
    assert job.problem.startswith("a.jsonl, line 2 cannot be read as JSON")
    assert [(name, row["error"]) for name, row in job.rows.items()] == [
        ("kettle", ""),
        ("toast", "no result file was given for it"),
    ]
    shown = handlers.show(page, "mmduet", ORDER)
    assert shown.status.value.startswith("⚠ mmduet: 2 videos, 1 of them with results; a.jsonl, line 2 cannot be read")
    assert "MMDuet files hold no thresholds" in shown.status.value
    assert shown.videos[1][-1] == "no result file was given for it"
    assert "span" in shown.corpus.lower()
    settings = json.loads((page.runs / "mmduet" / "run.json").read_text())
    signals = [(spec["name"], spec["policy"], spec["threshold"]) for spec in settings["signals"]]
    assert signals == [("informative_score", "running-sum", 2.0), ("relevance_score", "above", None)]
    assert page.run_names() == ["mmduet"]


def test_refused_files_write_nothing_and_show_no_folder(page: BatchContext, tmp_path: Path) -> None:
    def problem(*files: Path, split: str | None = "gold", name: str = "") -> str:
        view = import_files(page, split, [str(path) for path in files], name, *RULE, ORDER)
        return str(view.problem.value)

    cake = tmp_path / "cake.jsonl"
    cake.write_text((DATA / "mmduet.jsonl").read_text().replace("kettle", "cake"))
    assert problem() == "⚠ there are no result files; choose some."
    assert problem(cake, split=None) == "⚠ no split is chosen; choose that of the results."
    assert problem(cake).startswith("⚠ cake.jsonl is of the video cake, which fits 0 videos of gold.json; choose the")
    assert problem(DATA / "gold.json").startswith("⚠ gold.json, entry 0 is of no known form")
    assert "may have letters, digits" in problem(DATA / "mmduet.jsonl", name="../x")
    assert not page.runs.exists()
    (page.runs / "a").mkdir(parents=True)
    assert problem(DATA / "mmduet.jsonl", name="a") == "⚠ there is a run called a already; enter another name."


def test_a_run_of_the_model_is_not_continued_by_an_import(page: BatchContext) -> None:
    import_files(page, "gold", [str(DATA / "streamo.json")], "", *NO_RULE, ORDER)
    (name,) = page.run_names()
    assert name.startswith("gold-streamo-")
    wait_for(page, name, "done")


def test_files_are_checked_when_they_are_uploaded(page: BatchContext, tmp_path: Path) -> None:
    mmduet = DATA / "mmduet.jsonl"
    good = check_files(page, "gold", [str(mmduet)])
    assert (good.problem.value, good.signal.value) == ("", "informative_score")
    cut = tmp_path / "cut.jsonl"
    cut.write_text(mmduet.read_text()[:300])
    assert check_files(page, "gold", [str(cut)]).problem.value.startswith("⚠ cut.jsonl cannot be read as JSON: ")
    cut.write_text(f"{mmduet.read_text()}{{\n[\n")
    problem = check_files(page, "gold", [str(cut)]).problem.value
    assert problem.startswith("⚠ cut.jsonl, line 2 cannot be read as JSON")
    assert problem.endswith(", and 1 more; the others can be imported.")
