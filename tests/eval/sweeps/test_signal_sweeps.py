"""Sweeps over the thresholds of named signals, with scores worked out by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscope.app.cli.stepscope import main
from stepscope.engine.decisions.policies import POLICIES
from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.sweeps.folder import read_sweep, write_sweep
from stepscope.eval.sweeps.grid import Grid, GridScores
from stepscope.eval.sweeps.preview import SignalTrace, Traces, count_thresholds, make_choice_grid, preview, read_traces
from tests.support.data.recorded import record_toy


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_toy(tmp_path_factory.mktemp("recorded") / "toy")


@pytest.fixture(scope="module")
def traces(run: Path) -> Traces:
    return read_traces(run, read_split(RunFolder(run).split_path()))


def score(traces: Traces, name: str, *thresholds: float) -> list[float]:
    """Return the exact event F1 of a signal at each threshold."""
    (speak, _) = traces.choose([name])
    assert speak is not None
    grid = Grid(speak=thresholds, update=(), speak_spec=speak.spec)
    return [point["speaking_event_f1_0s"] for point in preview(traces, grid).points]


def test_each_signal_that_decides_is_a_choice(traces: Traces) -> None:
    assert [signal.name for signal in traces.signals] == ["yes", "informative", "not talk"]
    assert [(speak and speak.name, update) for speak, update in traces.choices()] == [
        ("yes", None),
        ("informative", None),
        ("not talk", None),
    ]
    with pytest.raises(ValueError, match="no signal 'brightness' that decides; choose from yes, informative"):
        traces.choose(["brightness"])
    with pytest.raises(ValueError, match="yes and not talk make the same decision"):
        traces.choose(["yes", "not talk"])


def test_the_events_of_a_value_a_sum_and_a_fall_are_counted_at_each_threshold(traces: Traces) -> None:
    # 0.5: frames 2 and 5, both right; 0.85: frame 2 of two references, 2 * 1 / (1 + 2)
    assert score(traces, "yes", 0.5, 0.85) == pytest.approx([1, 2 / 3])
    # above 0.9: sums 0.5, 1 trigger at frames 1, 3, 5 and 7, one of them right: 2 * 1 / (4 + 2)
    # above 1.1: frames 2, 5: both right; above 1.6: frames 3 and 7, none right
    assert score(traces, "informative", 0.9, 1.1, 1.6) == pytest.approx([1 / 3, 1, 0])
    assert score(traces, "not talk", 0.5, 0.65, 0.75) == pytest.approx([1, 2 / 3, 0])


def test_the_thresholds_span_the_values_the_falls_and_the_sums(traces: Traces) -> None:
    axes = {signal.name: signal.make_axis(3) for signal in traces.signals}
    assert axes == {
        "yes": (0.05, 0.5, 0.95),
        "informative": (0.2, 2.0, 3.8),  # 8 * 0.5 over two references, twice
        "not talk": (0.05, 0.5, 0.95),
    }


def test_hysteresis_is_counted_at_each_threshold() -> None:
    # above 0.5: frame 0; 1 is still high; 2 falls to 0.25; 3 is within 5 s; 6 is right, in both videos. Above 0.25 the
    # fall must reach 0.125, which the second video does not: frame 0 alone.
    trace = SignalTrace(values=np.array([0.75, 1, 0.25, 1, 1, 0, 1]), expected_frames=np.array([6]), fps=1)
    second = replace(trace, values=np.array([0.75, 1, 0.25, 1, 1, 0.5, 1]))
    counts = count_thresholds([trace, second], [0.25, 0.5], policy=POLICIES["hysteresis"])
    assert [(count.num_hits, count.num_false_alarms) for count in counts] == [(1, 2), (2, 2)]


def test_a_swept_signal_is_read_back_as_it_was_written(traces: Traces, tmp_path: Path) -> None:
    scores = preview(traces, make_choice_grid(traces.choose(["not talk"]), lambda signal: signal.make_axis(5)))
    (tmp_path / "sweep").mkdir()
    write_sweep(tmp_path / "sweep", scores, {"split": scores.split})
    again = read_sweep(tmp_path / "sweep")
    assert again == GridScores(
        split=scores.split, is_exact=False, grid=scores.grid, points=again.points, num_videos=1, errors={}
    )
    assert [point["speaking_event_f1_1s"] for point in again.points] == pytest.approx(
        [point["speaking_event_f1_1s"] for point in scores.points]
    )
    header, first, *_ = (tmp_path / "sweep" / "sweep.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("speak_signal,speak_threshold,update_threshold,decision_f1_1s")
    assert first.startswith("not talk,0.05,,")
    assert "decisions of the rule alone" in first


def test_the_command_previews_the_signals_of_a_recorded_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = str(RunFolder(run).split_path())
    command = ["sweep", split, "--preview", str(run)]
    assert main([*command, "--signal", "informative", "--speak", "0.9,1.1,1.6", "--out", str(tmp_path / "out")]) == 0
    assert "speaking_event_f1_1s of the rule's decisions 1.000 at informative 1.1" in capsys.readouterr().out
    assert read_sweep(tmp_path / "out").grid.speak == (0.9, 1.1, 1.6)
    assert main(command) == 0
    assert "9 points, preview from the traces of" in capsys.readouterr().out
