"""The leaderboard of the batch tab: own, recorded and imported runs of one split."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stepscope.app.batch import leaderboard as boards
from stepscope.app.batch.file_rows import ENDINGS, save_table
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.window.context import AppContext
from stepscope.eval.cli.options import LeaderboardOptions
from stepscope.eval.cli.run_tables import leaderboard
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.recorder import RunRecorder
from stepscope.eval.runs.imports.import_results import import_into
from tests.support.pages.batch_tab import make_batches
from tests.support.streams.fakes import count_letters

WORDS = "The kettle boils now."
METRICS = ["F1", "missing_rate", "PAUC_w0", "num_failures"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> BatchContext:
    """Two models' runs of seven videos, one recorded and perfect, one imported from MMDuet and silent but once."""
    folder = tmp_path_factory.mktemp("board")
    turn = {"time_s": 1.0, "role": "assistant", "text": WORDS, "end_s": 3.0}
    videos = [
        {"video_id": f"v{number}", "fps": 2.0, "num_frames": 8, "goal": "", "steps": [], "turns": [turn]}
        for number in range(7)
    ]
    (folder / "kettles.json").write_text(json.dumps({"videos": videos}))
    batches = make_batches(folder / "kettles.json", checkpoint=tiny_folder, runs=folder / "runs")
    with RunRecorder(batches.runs / "recorded", model="my loop", split=folder / "kettles.json") as run:
        for number in range(7):
            with run.video(f"v{number}") as video:
                for index in range(8):
                    video.frame(index / 2, response=WORDS if index == 2 else None)
    lines = [
        {
            "question_id": f"v{number}",
            "model_response_list": [{"time": 0.0, "content": WORDS}] if number == 0 else [],
            "debug_data": [{"time": index / 2, "informative_score": 0.1, "relevance_score": 0.2} for index in range(8)],
        }
        for number in range(7)
    ]
    (folder / "mmduet.jsonl").write_text("\n".join(map(json.dumps, lines)))
    scoring = {"text_encoder": "letters"}
    import_into(batches.runs / "imported", [folder / "mmduet.jsonl"], batches.splits["kettles"], scoring)
    return batches


@pytest.fixture(scope="module")
def context() -> AppContext:
    return cast(AppContext, SimpleNamespace(encode=count_letters))


def show(
    context: AppContext,
    page: BatchContext,
    *names: str,
    metrics: Any = METRICS,
    by: str = "F1",
    baselines: bool = False,
    shown: str | None = "recorded",
) -> Any:
    return boards.show_board(
        context,
        page,
        boards.BoardForm(shown=shown, names=names, metrics=metrics, sort_by=by, baselines=baselines),
    )


@pytest.fixture(scope="module")
def view(context: AppContext, page: BatchContext) -> Any:
    return show(context, page, "imported", "recorded")


def test_two_models_are_in_one_table_and_the_separated_best_is_marked(view: Any) -> None:
    assert view.table["headers"] == [
        *("Run", "Origin", "Response F1 ↑", "Responses missed ↓", "PAUC, w 0 ↑", "Failures ↓"),
    ]
    first, second = view.table["data"]
    assert first == [
        *("recorded", "recorded: my loop", "★ 1.000 [1.000, 1.000]", "★ 0.000 [0.000, 0.000]"),
        *("★ 100.000 [100.000, 100.000]", "★ 0"),
    ]
    assert second[:2] == ["imported", "imported: MMDuet"]
    assert second[4] == "25.000 [25.000, 25.000]", "a reply before the span counts as silence"
    assert view.said.value.startswith("7 videos, 95 % intervals; ★ where a paired test separates")


def test_protocols_are_columns_and_baselines_are_rows_on_request(context: AppContext, page: BatchContext) -> None:
    chosen = ["F1", "streampro-ou", "spot-pnr:k=1"]
    view = show(context, page, "recorded", metrics=chosen, by="spot-pnr:k=1", baselines=True)
    assert view.table["headers"][2:] == ["Response F1 ↑", "streampro-ou ↑", "spot-pnr:k=1 ↑"]
    rows = {row[0]: row for row in view.table["data"]}
    assert rows["recorded"][4] == "1.000 [1.000, 1.000]"
    assert rows["always silent"][1:] == ["baseline", *["0.000 [0.000, 0.000]"] * 3]
    assert "contents judged by cosine bands 0.5/0.8, text encoder letters, match window -2.5" in view.said.value
    assert "spot-pnr:k=1 (f1): window: T = 1 within offset_s of the start" in view.said.value
    assert {"streampro-ou", "egoproactive"} <= {name for _, name in boards.metric_choices()}


def test_the_order_follows_a_score_and_its_direction(page: BatchContext, view: Any) -> None:
    board = view.board
    for by, names in (("F1", ["recorded", "imported"]), ("num_failures", ["recorded", "imported"])):
        assert [row[0] for row in boards.show_order(page, board, by).table["data"]] == names
    assert [row[0] for row in boards.show_order(page, board, "no such score").table["data"]] == ["imported", "recorded"]


def test_runs_of_the_shown_split_are_offered_and_a_choice_is_kept(page: BatchContext) -> None:
    runs, offered = boards.list_runs(page, "recorded", [], None)
    assert sorted(runs.value) == ["imported", "recorded"]
    assert runs.value[0] == "recorded"
    assert boards.list_runs(page, "imported", ["recorded"], offered)[0].value == ["recorded"]
    assert len(boards.list_runs(page, None, [], None)[0].value) == 2, "without a shown run those of the newest run"


def test_refusals_are_sentences_and_leave_an_empty_table(context: AppContext, page: BatchContext) -> None:
    for names, metrics, words in (
        (("nowhere",), METRICS, "There is no run 'nowhere'"),
        (("recorded",), (), "Choose scores."),
        (("recorded",), ("Bleu_4",), "'Bleu_4' is no score of a leaderboard"),
    ):
        view = show(context, page, *names, metrics=metrics)
        assert words.lower() in view.said.value.lower()
        assert view.table["data"] == []
    elsewhere = replace(page, splits={})
    assert "the page lacks kettles.json, the split of recorded" in show(context, elsewhere).said.value
    assert "there is no run yet" in show(context, replace(page, runs=page.runs / "none")).said.value.lower()


def test_the_downloads_are_those_of_the_command(
    page: BatchContext, view: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TextEncoder(name="letters", encode=count_letters)
    monkeypatch.setattr("stepscope.eval.cli.run_tables.import_encoder", lambda _: encoder)
    kept: dict[str, Path] = {}
    for table_format, ending in ENDINGS.items():
        for path in save_table(boards.write_board, table_format, view.board, "missing_rate"):
            assert Path(path).name == f"imported-recorded-leaderboard.{ending}"
            kept[table_format] = Path(shutil.copy(path, tmp_path))
    rows = list(csv.DictReader(kept["csv"].read_text().splitlines()))
    assert [row["run"] for row in rows] == ["recorded", "imported"]
    assert "\\textbf{1.000}" in kept["latex"].read_text()
    options = LeaderboardOptions(
        runs=(page.runs / "imported", page.runs / "recorded"),
        metric=tuple(METRICS),
        sort="missing_rate",
        out=tmp_path / "of_the_command",
    )
    assert leaderboard(options) == 0
    assert kept["markdown"].read_text() == (tmp_path / "of_the_command").read_text()
    with pytest.raises(ValueError, match="must be one of the columns"):
        leaderboard(replace(options, sort="F2"))
