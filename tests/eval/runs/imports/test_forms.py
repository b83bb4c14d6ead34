"""Result files of systems that publish their signals, from small files made by hand from the documented forms."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.__main__ import main
from stepscope.eval.data.loading import read_split
from stepscope.eval.reports.run_list import list_runs
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.imports.import_results import import_into, list_missing
from stepscope.eval.runs.imports.system_output import SystemOutput
from stepscope.eval.runs.provenance import read_provenance
from tests.support.data.batches import no_java
from tests.support.data.strategies import BOAT
from tests.support.paths import ROOT

DATA = ROOT / "tests" / "data" / "imports"
SPLIT = DATA / "gold.json"


def imported(tmp_path: Path, file: Path) -> tuple[RunFolder, Mapping[str, str], tuple[FrameOutput, ...]]:
    split = read_split(SPLIT)
    run = RunFolder(tmp_path / "run")
    problems = import_into(run.path, [file], split, {})
    return run, problems, run.outputs(split.samples[0])


def responses(outputs: tuple[FrameOutput, ...]) -> dict[float, str]:
    return {output.time_s: output.response for output in outputs if output.response is not None}


def test_mmduet_has_its_scores_as_signals_that_decide(tmp_path: Path) -> None:
    run, problems, outputs = imported(tmp_path, DATA / "mmduet.jsonl")
    assert problems == {}
    assert responses(outputs) == {4.5: "The kettle boils now."}  # the user's words are none
    assert outputs[9].signals == {"informative_score": 0.41, "relevance_score": 0.9}
    assert all(math.isnan(output.speak_prob) for output in outputs)
    assert [(spec.name, spec.decides, spec.threshold) for spec in run.signals()] == [
        ("informative_score", "speak", None),
        ("relevance_score", "speak", None),
    ]
    assert "thresholds" in list_missing(run.settings() or {})[0]


def test_a_recording_has_modes_times_and_one_message_for_its_chunks(tmp_path: Path) -> None:
    run, problems, outputs = imported(tmp_path, DATA / "sessions" / "kettle" / "recording.json")
    assert problems == {}
    assert responses(outputs) == {4.0: "The kettle boils now."}
    assert [output.state for output in outputs[6:11]] == ["listen", "listen", "speak", "speak", "speak"]
    for held in outputs[8:10]:  # both frames of its second
        assert (held.cache_tokens, held.signals["llm_ms"]) == (340, 80.5)
    assert outputs[8].latency_ms == 120.0
    assert math.isnan(outputs[9].latency_ms), "the time of a chunk is counted once"
    assert {spec.name: spec.high for spec in run.signals()}["prefill_ms"] == 30.0


@pytest.mark.parametrize(("fps", "states"), [(0.5, "ab"), (2.5, "aabbb")])
def test_a_state_holds_for_the_frames_of_its_second(fps: float, states: str) -> None:
    sample = replace(BOAT, fps=fps, num_frames=len(states))
    seconds = [0.0, 1.0] if fps >= 1 else [0.0, 2.0]
    entries = {frame_at(second, fps): state for second, state in zip(seconds, "ab", strict=True)}
    held = SystemOutput(states=entries).hold_within_seconds(sample).states
    assert "".join(held[frame] for frame in sorted(held)) == states


def test_a_line_that_is_not_json_or_fits_no_video_is_named(tmp_path: Path) -> None:
    lines = (DATA / "proactive_videoqa.jsonl").read_text().splitlines()
    (tmp_path / "a.jsonl").write_text("\n".join([lines[0], "{", lines[1].replace("toast", "cake"), lines[0]]))
    problems = import_into(tmp_path / "run", [tmp_path / "a.jsonl"], read_split(SPLIT), {})
    assert ["cannot be read as JSON" in problems[f"{tmp_path / 'a.jsonl'}, line 2"]] == [True]
    assert "fits 0 videos" in problems[f"{tmp_path / 'a.jsonl'}, line 3"]
    assert "is a second result for kettle" in problems[f"{tmp_path / 'a.jsonl'}, line 4"]


def test_a_rule_is_chosen_where_the_form_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stepscope.eval.cli.finished_runs.TextScorer", no_java)
    command = ["import", str(DATA / "mmduet.jsonl"), "--split", str(SPLIT), "--out", str(tmp_path / "run")]
    rule = ["--signal", "relevance_score", "--policy", "drop", "--threshold", "0.7"]
    assert main([*command, "--policy", "drop"]) == 2
    assert "--signal and --policy need --threshold" in capsys.readouterr().err
    assert main([*command, "--threshold", "0.7"]) == 2, "two signals may decide"
    assert "the rule names no signal; choose one of informative_score, relevance_score" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main([*command, *rule]) == 1  # there is no result of the video toast
    assert "signal relevance_score, decides to speak: " in (printed := capsys.readouterr().out)
    assert "ece undefined" in printed, "a fall is no probability"
    assert re.search(r"event_f1_1s \S+ of the rule's decisions", printed)
    specs = RunFolder(tmp_path / "run").signals()
    assert [(spec.name, spec.decides, spec.policy, spec.threshold) for spec in specs] == [
        ("informative_score", None, "above", None),
        ("relevance_score", "speak", "drop", 0.7),
    ]
    chosen = "speak by relevance_score, drop, threshold 0.70, given at the import"
    assert f"The rule: {chosen}" in printed
    assert "MMDuet files hold no updates" in printed, "the threshold is known"
    provenance = read_provenance(RunFolder(tmp_path / "run"))
    assert provenance.rules == chosen
    assert ("rule", chosen) in provenance.rows()
    assert chosen in provenance.summary
    (listed,) = list_runs({"run": tmp_path / "run"})
    assert listed.settings["rules"] == chosen
    (tmp_path / "run" / "metrics.json").unlink()  # as if the command had been stopped while it scored
    assert main([*command, *rule]) == 1
    assert main([*command, *rule]) == 2
    scores = json.loads((tmp_path / "run" / "metrics.json").read_text())["signal_scores"]
    assert list(scores) == ["relevance_score"]
    assert scores["relevance_score"]["threshold"] == 0.7
