"""The measures, the definitions of their scores, and the scores of signals."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.records import FrameOutput
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.metrics.decisions import count_signals, summarize_signals
from stepscope.eval.metrics.definitions import METRICS, to_markdown
from stepscope.eval.metrics.score import VideoCounts, score_counts
from tests.support.data.records import make_output
from tests.support.paths import ROOT


def test_the_entries_are_the_scores() -> None:
    computed = {*score_counts(VideoCounts()), "peak_memory_mb"}
    assert {metric.name for metric in METRICS if metric.scope != "video"} == computed
    renamed = {name.replace("CIDEr", "CIDEr_split_df") for name in computed} - {"peak_memory_mb"}
    assert {metric.name for metric in METRICS if metric.scope != "split"} == renamed
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_page_of_definitions_is_current() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert page == to_markdown(), "run: python -m stepscope.eval metrics > docs/metrics.md"
    ours = [re.sub(r"(_event_\w+|start_recall)_(0|0\.5|2|5)s$", r"\1_1s", metric.name) for metric in METRICS]
    names = {name.removesuffix("_w") for name in ours}
    names = {name.replace("dst_update_", "speaking_") for name in names}
    assert all(f"`{name}`" in page for name in names)


TURNS = (Turn(time_s=1.0, role="assistant", text="Go."), Turn(time_s=3.0, role="assistant", text="Stop."))
SAMPLE = Sample(
    video_id="a", video_path=Path("a"), fps=1, num_frames=5, goal="", steps=(), turns=TURNS, initial_state={}
)


def outputs(values: Sequence[float], said: Sequence[int] = ()) -> list[FrameOutput]:
    return [
        make_output(
            index,
            fps=1,
            speak_prob=math.nan,
            update_prob=math.nan,
            response="Go." if index in said else None,
            latency_ms=math.nan,
            legality=(),
            signals={"s": value},
        )
        for index, value in enumerate(values)
    ]


def scores(spec: SignalSpec, values: Sequence[float], said: Sequence[int] = ()) -> dict[str, float]:
    found: dict[str, float] = summarize_signals([spec], [count_signals([spec], SAMPLE, outputs(values, said))])["s"][
        "scores"
    ]
    return found


def test_ranks_and_triggers_of_a_signal_in_its_own_range() -> None:
    # Expected are the frames 1 and 3. Above 50 are the frames 1 and 2: one hit, one false alarm, one miss.
    spec = SignalSpec(name="s", low=0, high=100, threshold=50, decides="speak")
    found = scores(spec, [10, 90, 60, 40, 20])
    assert (found["num_hits"], found["num_false_alarms"], found["num_misses"]) == (1, 1, 1)
    # Of 2 x 3 pairs only that of frame 3 (40) and frame 2 (60) is in the wrong order.
    assert found["auroc"] == pytest.approx(5 / 6)
    assert found["average_precision"] == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert math.isnan(found["brier"]), "values of 0 to 100 are no probabilities"


def test_without_a_threshold_the_decisions_are_those_of_the_run() -> None:
    found = scores(SignalSpec(name="s", decides="speak"), [0.1] * 5, said=[3, 4])
    assert (found["num_hits"], found["num_false_alarms"], found["num_misses"]) == (1, 1, 1)


def test_a_running_sum_triggers_where_it_exceeds_its_threshold() -> None:
    # The sums are 0.5, 1.0 (trigger), 0.25, 1.25 (trigger), 0: the frames 1 and 3.
    spec = SignalSpec(name="s", threshold=0.75, decides="speak", policy="running-sum")
    found = scores(spec, [0.5, 0.5, 0.25, 1.0, 0.0])
    assert (found["num_hits"], found["num_false_alarms"], found["num_misses"]) == (2, 0, 0)


def test_a_surge_ranks_frames_by_the_rise_above_the_older_mean() -> None:
    # The rises in a second are unknown, 0.75, -0.5, 0.5 and -0.25; each of the two is above the mean before it.
    spec = SignalSpec(name="s", threshold=0.25, decides="speak", policy="surge")
    found = scores(spec, [0.0, 0.75, 0.25, 0.75, 0.5])
    assert (found["num_hits"], found["num_false_alarms"], found["auroc"]) == (2, 0, 1)
    assert math.isnan(found["brier"]), "a rise is no probability"
