"""Runs of one split under several protocols: side by side, beside baselines, and compared."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.cli.stepscope import main
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.metrics.counts import NO_INTERVAL
from stepscope.eval.protocols.rules import parse_rule
from stepscope.eval.reports.entries import list_baselines, open_entries
from stepscope.eval.reports.protocol_table import (
    ProtocolRow,
    ProtocolScore,
    ProtocolTable,
    build_protocol_table,
    describe_order,
    list_differing_turns,
)
from stepscope.eval.reports.statistics import Difference
from tests.support.data.batches import write_split
from tests.support.data.protocol_runs import WORDS, record_words
from tests.support.streams.fakes import count_letters

NUM_VIDEOS = 8
SCORES = ("streampro-ou", "ovo-timing", "ipibench-single")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of eight videos with one reference at 10 s: one is 2 s late, one is exact and talks again at 20 s."""
    folder = tmp_path_factory.mktemp("protocols")
    turns = [{"time_s": 10.0, "role": "assistant", "text": WORDS}]
    video = {"fps": 2.0, "num_frames": 80, "goal": "", "steps": [], "initial_state": {}, "turns": turns}
    videos = [{"video_id": f"v{number}", **video} for number in range(NUM_VIDEOS)]
    record_words(folder, write_split(folder, *videos), {"late": (12.0,), "chatty": (10.0, 20.0)})
    return folder


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("finished_runs", "run_tables"):
        monkeypatch.setattr(
            f"stepscope.eval.cli.{module}.import_encoder", lambda name: TextEncoder(name=name, encode=count_letters)
        )


def values(folder: Path, *names: str, baselines: bool = False) -> dict[str, dict[str, float]]:
    """Return the main score of each protocol and row."""
    rules = [parse_rule(name) for name in names]
    table = build_protocol_table(
        {name: folder / name for name in ("late", "chatty")},
        read_split(folder / "split.json"),
        rules,
        encode=count_letters,
        text_encoder="letters",
        baselines=baselines,
        num_resamples=10,
    )
    return {
        row.rule.name: {name: one.value for name, one in row.runs.items()}
        for row in table.rows
        if row.score == row.rule.protocol.main
    }


def test_the_rank_of_two_runs_changes_with_the_protocol(folder: Path) -> None:
    found = values(folder, *SCORES)
    # Late: S = 1 - 2/4 with one reply. Chatty: S = 1 with two, P = 1/2.
    assert found["streampro-ou"] == pytest.approx({"late": 0.5, "chatty": 2 / 3})
    assert found["ovo-timing"] == pytest.approx({"late": 1.0, "chatty": 2 / 3})
    assert found["ipibench-single"] == {"late": 0.0, "chatty": 1.0}


def test_a_turn_that_counts_under_some_protocols_only_is_listed(folder: Path) -> None:
    rules = [parse_rule(name) for name in SCORES]
    split = read_split(folder / "split.json")
    (first, *others) = list_differing_turns(folder / "late", split, rules, encode=count_letters)
    assert (first.video_id, first.time_s, first.met) == ("v0", 10.0, ("streampro-ou", "ovo-timing"))
    assert first.missed == ("ipibench-single",)
    assert len(others) == NUM_VIDEOS - 1
    assert list_differing_turns(folder / "chatty", split, rules, encode=count_letters) == []


def test_two_runs_are_compared_under_each_protocol(folder: Path) -> None:
    split = read_split(folder / "split.json")
    rules = [parse_rule(name) for name in ("streampro-ou", "ovo-timing")]
    runs = {name: folder / name for name in ("late", "chatty")}
    table = build_protocol_table(runs, split, rules, encode=count_letters, text_encoder="letters")
    main = {row.rule.name: row.difference for row in table.rows if row.is_main and row.difference is not None}
    assert main["streampro-ou"].difference == pytest.approx(2 / 3 - 0.5)
    assert main["ovo-timing"].difference == pytest.approx(2 / 3 - 1)
    assert main["ovo-timing"].p_value == pytest.approx(2 / 2**NUM_VIDEOS)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            ((0.1, 0.01), (-0.1, 0.01)),
            "The order depends on the protocol: A leads under ovo-timing; B leads under streampro-ou.",
        ),
        (
            ((0.1, 0.264), (-0.1, 0.01)),
            "A leads under ovo-timing; no difference is shown under streampro-ou. Without significance, the main "
            "score is higher in B under streampro-ou.",
        ),
    ],
)
def test_a_run_leads_only_where_the_paired_test_separates_the_runs(
    found: tuple[tuple[float, float], ...], words: str
) -> None:
    rows = [
        ProtocolRow(
            rule=(rule := parse_rule(name)),
            score=rule.protocol.main,
            runs={},
            difference=Difference(a=0.5, b=0.5, difference=value, interval=NO_INTERVAL, p_value=p_value),
        )
        for name, (value, p_value) in zip(("streampro-ou", "ovo-timing"), found, strict=True)
    ]
    table = ProtocolTable(rows=tuple(rows), judge="none", text_encoder="letters", num_videos=9)
    assert describe_order(table) == words


def test_a_table_names_the_judge_of_the_rules_that_have_scores() -> None:
    rows = [
        ProtocolRow(rule=(rule := parse_rule(name)), score=rule.protocol.main, runs={"a": ProtocolScore(value=value)})
        for name, value in (("coin-step", 1.0), ("omnipro", math.nan), ("qevd-tf", 1.0))
    ]
    table = ProtocolTable(rows=tuple(rows), judge="m", text_encoder="letters", num_videos=9)
    assert "contents judged by smallest edit distance, text encoder" in table.basis
    assert "contents: smallest edit distance" in rows[0].rule.describe()
    defined = replace(rows[1], runs={"a": ProtocolScore(value=0.5)})
    both = replace(table, rows=(*rows[:1], defined))
    assert "contents judged by smallest edit distance and m, " in both.basis


def test_baselines_need_no_model(folder: Path) -> None:
    found = values(folder, "streampro-ou", "egoproactive", baselines=True)
    # Speaking: S = 1 in one of 80 replies. 1 s late: S = 1 - 1/4.
    assert found["streampro-ou"] == {
        "late": 0.5,
        "chatty": pytest.approx(2 / 3),
        "always silent": 0.0,
        "always speaking": pytest.approx(2 / 81),
        "reference 1 s late": 0.75,
        "random at the rate of late": pytest.approx(found["streampro-ou"]["random at the rate of late"]),
        "random at the rate of chatty": pytest.approx(found["streampro-ou"]["random at the rate of chatty"]),
    }
    # 5 chunks of 8 s, one of them an interrupt: F1 of silent 8 / 9, and F1 of interrupt 2 / 6.
    assert found["egoproactive"]["always silent"] == pytest.approx(8 / 9 / 2)
    assert found["egoproactive"]["always speaking"] == pytest.approx(2 / 6 / 2)


def test_a_random_baseline_speaks_as_often_as_its_run_and_the_same_each_time(folder: Path) -> None:
    entries = open_entries({"chatty": folder / "chatty"}, read_split(folder / "split.json"))
    speak = list_baselines({"chatty": entries.rows["chatty"].outputs})["random at the rate of chatty"]
    drawn = [[one.frame_index for one in speak(sample) if one.response] for sample in entries.samples]
    assert [len(frames) for frames in drawn] == [2] * NUM_VIDEOS
    assert len({tuple(frames) for frames in drawn}) > 1
    assert drawn == [[one.frame_index for one in speak(sample) if one.response] for sample in entries.samples]


@pytest.mark.usefixtures("letters")
def test_the_commands_show_runs_under_protocols(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = [str(folder / name) for name in ("late", "chatty")]
    table = tmp_path / "table.csv"
    assert main(["protocols", *runs, "--protocol", *SCORES, "--turns", "--out", str(table)]) == 0
    shown = capfd.readouterr().out
    assert "| ovo-timing: tolerance_s 2, delay_s 2 | precision | recall | f1 |" in shown
    assert "| chatty | 0.500 [0.500, 0.500] | 1.000 [1.000, 1.000] | 0.667 [0.667, 0.667] |" in shown
    assert "Turns of late that count differently:" in shown
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert {row["run"] for row in rows} == {"late", "chatty"}

    assert main(["compare", *runs, "--protocol", "ovo-timing", "--latex"]) == 0
    shown = capfd.readouterr().out
    assert "ovo-timing & A & B & B - A & 95 \\% interval & p" in shown
    assert "f1 & 1.000 & 0.667 & -0.333 & [-0.333, -0.333] & 0.008" in shown
    assert "\\par\\footnotesize ovo-timing (f1): window: within tolerance\\_s of the true time" in shown
    assert main(["compare", *runs, "--protocol", "ovo-timing", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["differences"][0]["protocol"] == "ovo-timing"
    assert main(["leaderboard", *runs, "--metric", "ovo-timing", "--baselines"]) == 0
    assert "| always silent | 0.000 [0.000, 0.000] |" in capfd.readouterr().out
