"""The tab *Protocols*: runs under several published protocols, and the turns that count differently."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.app.batch import protocols as tab
from stepscope.app.batch.file_rows import save_table
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import BatchContext
from stepscope.app.window.context import AppContext
from stepscope.eval.protocols.rules import parse_rule
from tests.support.data.protocol_runs import WORDS, record_runs
from tests.support.pages.batch_tab import make_batches

CHOSEN = ("streampro-ou", "ovo-timing", "ipibench-single:tolerance_s=1.5")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, demo_manifest: Path, tiny_folder: Path) -> BatchContext:
    folder = tmp_path_factory.mktemp("protocols")
    split = record_runs(demo_manifest, folder, folder / "runs", number=6)
    return make_batches(split, checkpoint=tiny_folder, runs=folder / "runs")


@pytest.fixture
def show(context: AppContext, page: BatchContext) -> Any:
    def show(name: str | None, other: str = "", protocols: Any = CHOSEN) -> Any:
        *_, last = tab.show(context, page, tab.ProtocolsForm(run=name, other=other, protocols=protocols))
        return last

    return show


def cards(markup: str) -> list[str]:
    return [" ".join(re.sub("<.*?>", " ", card).split()) for card in markup.split("<section")[1:]]


def test_the_order_of_two_runs_that_depends_on_the_protocol_is_named(show: Any) -> None:
    view = show("late", "chatty")
    said = view.said.value
    assert said.startswith(
        "A is late, B is chatty. The order depends on the protocol: A leads under ovo-timing; B leads under "
        "streampro-ou, ipibench-single:tolerance_s=1.5. 6 videos, 95 % intervals"
    )
    ou, ovo, ipi = cards(view.cards)
    # Late: S = 1 - 2 / 4 with one reply. Chatty: S = 1 with two replies, P = 1 / 2.
    assert "f1 0.500 0.500 to 0.500 0.667 0.667 to 0.667 +0.167" in ou
    assert "f1 1.000 1.000 to 1.000 0.667 0.667 to 0.667 -0.333" in ovo
    assert "tolerance_s 1.5, right_accuracy 1. Contents: cosine bands 0.5/0.8, text encoder letters." in ipi
    assert "Contents: none." in ovo


def test_one_run_has_its_values_and_the_turns_that_count_differently(show: Any) -> None:
    view = show("late", "late")
    assert "score 95 % interval precision 0.500 0.500 to 0.500" in cards(view.cards)[0]
    assert view.turns[0] == ["v0", 2.0, "late", WORDS, "streampro-ou, ovo-timing", CHOSEN[2]]
    assert len(view.turns) == 6
    assert "the table is empty" not in str(view.said)
    view = show("late", protocols=CHOSEN[:1])
    assert view.turns == []
    assert "counts alike under them: the table is empty" in str(view.said.value)
    assert {row[2] for row in show("late", "chatty").turns} == {"late"}


def test_a_click_on_a_turn_opens_the_player_there(context: AppContext, page: BatchContext, show: Any) -> None:
    shown = show("chatty", "late").shown
    event: Any = SimpleNamespace(row_value=["v1", 2.0, "late", WORDS, "", ""])
    opened = tab.open_turn(context, page, shown, event)
    packed = json.loads(opened.player)
    assert (opened.tabs.selected, packed["landing"]["time"], packed["video_id"]) == ("player", 2.0, "v1")
    assert packed["run_name"] == "late"
    assert packed["landing"]["event"] is not None, "the turn is selected"
    update = replace(shown.turns["late"][0], video_id="v1", role="update", text="S1->start", time_s=1.0)
    shown = shown._replace(turns={"late": (update,)})
    [row] = tab._list_turns(page, shown)
    assert row[3] == "began: attach the wheel"
    clicked: Any = SimpleNamespace(row_value=row)
    assert json.loads(tab.open_turn(context, page, shown, clicked).player)["landing"]["time"] == 1.0
    with pytest.warns(UserWarning, match="no run is shown"):
        tab.open_turn(context, page, None, event)


def test_what_cannot_be_scored_is_a_sentence(context: AppContext, page: BatchContext, show: Any) -> None:
    for name, protocols, words in (
        ("nowhere", CHOSEN, "there is no run 'nowhere'"),
        ("late", (), "choose protocols."),
        ("late", ("spot",), "there is no protocol 'spot'"),
    ):
        view = show(name, protocols=protocols)
        assert words in view.said.value
        assert (view.shown, view.cards, view.turns) == (None, "", [])
    assert (
        "pauc is undefined: the split has no references for replies in spans." in show("late", "", ["pauc"]).said.value
    )
    (skipped,) = tab.show_again(context, page, False, None, tab.ProtocolsForm(run="late", other="", protocols=CHOSEN))
    assert skipped == Updates(), "a tab that was never opened costs nothing"


def test_the_table_is_saved_with_one_column_for_each_score_of_a_protocol(show: Any, tmp_path: Path) -> None:
    shown = show("late", "chatty").shown
    for file in save_table(tab.write_table, "csv", shown):
        rows = list(csv.DictReader(Path(file).read_text(encoding="utf-8").splitlines()))
        assert Path(file).name == "late-chatty-protocols.csv"
    assert [row["ovo-timing f1"] for row in rows] == ["1.0", "0.6666666666666666"]
    assert rows[0]["streampro-ou judge"] == "cosine bands 0.5/0.8"
    for file in save_table(tab.write_table, "latex", shown):
        latex = Path(file).read_text(encoding="utf-8")
    assert "The order depends on the protocol" in latex
    assert parse_rule("ovo-timing").protocol.source.replace("_", "\\_") in latex
    with pytest.warns(UserWarning, match="there is no table"):
        assert list(save_table(tab.write_table, "csv", None)) == [None]
