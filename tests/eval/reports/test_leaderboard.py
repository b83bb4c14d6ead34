"""Runs of one split in a table."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.eval.__main__ import main
from stepscope.eval.data.loading import read_split
from stepscope.eval.matching.turns import TextEncoder
from stepscope.eval.recorder import RunRecorder
from stepscope.eval.reports.leaderboard import Leaderboard, build_leaderboard, format_leaderboard
from stepscope.eval.runs.folder import RunFolder
from tests.support.data.batches import SCORING, write_split
from tests.support.data.protocol_runs import WORDS, record_words
from tests.support.streams.fakes import count_letters

METRICS = ("F1", "missing_rate", "speaking_event_f1_1s", "PAUC_w0", "first_decision_s")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of seven videos: one is perfect, its twin is the same, and one is silent."""
    folder = tmp_path_factory.mktemp("board")
    turns = [{"time_s": 1.0, "role": "assistant", "text": WORDS}]
    video = {"fps": 2.0, "num_frames": 8, "goal": "", "steps": [], "initial_state": {}, "turns": turns}
    split = write_split(folder, *({"video_id": f"v{number}", **video} for number in range(7)))
    record_words(folder, split, {"a_b & 100 % |": (1.0,), "twin": (1.0,), "silent": ()})
    RunFolder(folder / "twin").delete_video("v6")
    return folder


def board(folder: Path, *names: str) -> Leaderboard:
    return build_leaderboard(
        {name: folder / name for name in names},
        read_split(folder / "split.json"),
        SCORING,
        metrics=METRICS,
        encode=count_letters,
        num_resamples=127,
    )


def test_a_best_run_is_marked_where_the_paired_test_separates_it(folder: Path) -> None:
    found = board(folder, "a_b & 100 % |", "silent")
    assert found.num_videos == 7
    marks = {name: [cell.is_best for cell in cells] for name, cells in found.rows.items()}
    # PAUC is undefined without spans, and no direction of first_decision_s is better
    assert marks == {"a_b & 100 % |": [True, True, True, False, False], "silent": [False] * 5}
    assert [cell.value for cell in found.rows["silent"]][:2] == [0.0, 1.0]


def test_equal_runs_share_the_first_place_so_that_none_is_marked(folder: Path) -> None:
    found = board(folder, "a_b & 100 % |", "twin", "silent")
    assert not any(cell.is_best for cells in found.rows.values() for cell in cells)
    assert found.left_out == {"v6": ("twin",)}
    assert found.num_videos == 6


@pytest.mark.parametrize(("metrics", "is_best"), [(["F1"], True), (["F1", "false_alarms_per_quiet_hour"], False)])
def test_the_tests_of_all_columns_are_corrected_together(folder: Path, metrics: list[str], is_best: bool) -> None:
    """Six videos give p = 2 / 2**6 = 0.031 for F1; beside a column with p = 1 it is 0.062."""
    runs = {name: folder / name for name in ("twin", "silent")}
    split = read_split(folder / "split.json")
    found = build_leaderboard(runs, split, SCORING, metrics=metrics, encode=count_letters, num_resamples=127)
    assert found.rows["twin"][0].is_best is is_best


def test_no_run_is_best_by_the_times_of_its_machine(folder: Path, tmp_path: Path) -> None:
    split = read_split(folder / "split.json")
    for name, factor in (("fast", 1.0), ("slow", 9.0)):
        with RunFolder.open(tmp_path / name, {}) as run:
            for sample in split.samples[:6]:
                record = RunFolder(folder / "twin").record(sample.video_id)
                assert record is not None
                outputs = RunFolder(folder / "twin").outputs(sample)
                run.save_video(record, [replace(one, latency_ms=factor * (1 + one.frame_index)) for one in outputs])
    runs = {name: tmp_path / name for name in ("fast", "slow")}
    found = build_leaderboard(runs, split, SCORING, metrics=["latency_p50_ms"], encode=count_letters, num_resamples=127)
    assert found.rows["slow"][0].value == 9 * found.rows["fast"][0].value
    assert not any(cell.is_best for (cell,) in found.rows.values())


def test_failures_of_updates_count_only_if_all_runs_can_have_them(tmp_path: Path) -> None:
    steps, said = [{"id": "S1", "name": "saw"}], {"time_s": 1.0, "role": "assistant", "text": WORDS}
    turns = [said, {"time_s": 2.0, "role": "update", "text": "S1->start"}]
    video = {"video_id": "v", "fps": 2.0, "num_frames": 8, "goal": "", "steps": steps, "initial_state": {}}
    (tmp_path / "split.json").write_text(json.dumps({"videos": [{**video, "turns": turns}]}))
    for name, has_states in (("updates", True), ("no updates", True), ("speaks", False)):
        with (
            RunRecorder(tmp_path / name, model="m", split=tmp_path / "split.json", has_states=has_states) as run,
            run.video("v") as recorder,
        ):
            recorder.frame(1.0, response=WORDS if has_states else "No.")
            recorder.frame(2.0, updates=["S1->start"] if name == "updates" else [])
            recorder.frame(3.5)

    def count(*names: str) -> tuple[dict[str, float], str]:
        found = build_leaderboard(
            {name: tmp_path / name for name in names},
            read_split(tmp_path / "split.json"),
            SCORING,
            metrics=["num_failures", "dst_f1"],
            encode=count_letters,
            num_resamples=1,
        )
        return {name: cells[0].value for name, cells in found.rows.items()}, " ".join(found.notes)

    # without the update, it is missed, and the state is wrong from its frame on; "No." is a wrong text
    assert count("updates", "no updates") == ({"updates": 0, "no updates": 2}, "")
    assert count("speaks") == ({"speaks": 1}, "")
    values, notes = count("updates", "no updates", "speaks")
    assert values == {"updates": 0, "no updates": 0, "speaks": 1}
    assert notes == "Failures are those of responses, in all rows: speaks has no updates and states."


def test_each_format_holds_the_scores_and_escapes_names(folder: Path) -> None:
    found = board(folder, "a_b & 100 % |", "silent")
    markdown = format_leaderboard(found, "markdown")
    assert "| a_b & 100 % \\| | **1.000** [1.000, 1.000] | **0.000** [0.000, 0.000] |" in markdown
    assert "| run | F1 ↑ | missing_rate ↓ |" in markdown
    latex = format_leaderboard(found, "latex")
    assert "a\\_b \\& 100 \\% \\textbar{} & \\textbf{1.000} [1.000, 1.000]" in latex
    assert "missing\\_rate $\\downarrow$" in latex
    rows = list(csv.DictReader(io.StringIO(format_leaderboard(found, "csv"))))
    assert [(row["run"], row["F1"], row["F1_best"], row["PAUC_w0"]) for row in rows] == [
        ("a_b & 100 % |", "1.0", "1", ""),
        ("silent", "0.0", "0", ""),
    ]


def test_the_command_prints_a_table_and_names_what_it_leaves_out(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TextEncoder(name="letters", encode=count_letters)
    monkeypatch.setattr("stepscope.eval.cli.run_tables.import_encoder", lambda _: encoder)
    assert main(["leaderboard", str(folder / "twin"), str(folder / "silent"), "--metric", "F1"]) == 1
    shown = capfd.readouterr()
    assert "| twin | **1.000**" in shown.out
    assert shown.err == "left out: v6: not finished in twin\n"
    assert main(["leaderboard", str(folder / "twin"), "--metric", "Bleu_4"]) == 2
    assert "'Bleu_4' is no score of a leaderboard" in capfd.readouterr().err
    assert main(["leaderboard", str(folder / "twin"), str(folder / "twin")]) == 2
