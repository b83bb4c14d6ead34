"""All scores together: pooled counts, the published keys, and a split from the command line."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.engine.decisions.signals import SignalSpec
from stepscope.engine.io.files import unescape_formula, write_csv, write_json
from stepscope.engine.records import FrameOutput, Step, frame_at
from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.decisions import count_signals, reference_frames, summarize_decisions
from stepscope.eval.metrics.definitions import METRICS
from stepscope.eval.metrics.score import VideoCounts, analyze_video, score_counts
from tests.support.data.records import make_output, make_sample
from tests.support.streams.fakes import count_letters

SAMPLE = make_sample(
    num_frames=6,
    goal="g",
    steps=(Step(id="S1", name="attach the wheel"),),
    turns=(
        Turn(time_s=0.0, role="assistant", text="Go."),
        Turn(time_s=1.0, role="update", text="S1->start"),
        Turn(time_s=2.0, role="update", text="S1->complete"),
        Turn(time_s=2.0, role="assistant", text="Good."),
    ),
)


def outputs(says: dict[int, str], updates: dict[int, str]) -> list[FrameOutput]:
    state, records = "not_started", []
    for frame in range(6):
        if frame in updates:
            state = {"start": "in_progress", "complete": "completed"}[updates[frame].split("->")[1]]
        records.append(
            make_output(
                frame,
                speak_prob=0.9 if frame in says else 0.1,
                update_prob=0.9 if frame in updates else 0.1,
                response=says.get(frame),
                updates=(updates[frame],) if frame in updates else (),
                dst_state={"S1": state},
                latency_ms=600.0 if frame == 5 else 10.0,
            )
        )
    return records


def test_the_reference_against_itself_is_perfect() -> None:
    row = analyze_video(
        SAMPLE, outputs({0: "Go.", 4: "Good."}, {2: "S1->start", 4: "S1->complete"}), encode=count_letters
    )
    scores = score_counts(row.counts)
    perfect = ("F1", "jaccard_index", "speaking_f1", "dst_update_f1", "dst_exact_match", "dst_joint_goal_accuracy")
    assert {name: scores[name] for name in perfect} == dict.fromkeys(perfect, pytest.approx(1.0))
    assert scores["in_time_share"] == pytest.approx(5 / 6)  # one of six frames took 600 ms of 500


def test_a_median_time_is_the_mean_of_the_two_middle_ones_as_that_of_a_lead_is() -> None:
    slow = [replace(one, latency_ms=ms, first_token_ms=ms) for one, ms in zip(outputs({}, {}), range(6), strict=True)]
    scores = score_counts(analyze_video(SAMPLE, slow, encode=count_letters).counts)
    assert (scores["latency_p50_ms"], scores["first_token_p50_ms"], scores["latency_p95_ms"]) == (2.5, 2.5, 5.0)


def test_a_decision_finds_the_reference_after_the_last_output_as_its_message_does() -> None:
    says, updates = {0: "Go.", 3: "Good."}, {2: "S1->start", 3: "S1->complete"}
    spec = SignalSpec(name="gate", decides="speak")
    cut = [replace(output, signals={"gate": output.speak_prob}) for output in outputs(says, updates)[:4]]
    analysis = analyze_video(SAMPLE, cut, encode=count_letters)  # without frame 4, at which the reference has two turns
    scores = score_counts(analysis.counts)
    both = ("F1", "speaking_event_f1_1s", "dst_update_event_f1_1s", "dst_f1")
    assert {name: scores[name] for name in both} == dict.fromkeys(both, pytest.approx(1.0))
    signal = summarize_decisions(count_signals([replace(spec, threshold=0.5)], SAMPLE, cut)["gate"])
    assert signal["event_f1_1s"] == scores["speaking_event_f1_1s"]


def test_a_split_pools_counts_instead_of_averaging_scores() -> None:
    good = analyze_video(SAMPLE, outputs({0: "Go.", 4: "Good."}, {}), encode=count_letters)
    silent = analyze_video(SAMPLE, outputs({}, {}), encode=count_letters)
    # 2 of 2 references matched, then 0 of 2: recall 2 / 4; precision 2 / 2; F1 = 2 * 2 / (2 + 4)
    scores = score_counts(good.counts + silent.counts)
    assert [scores[name] for name in ("recall", "precision", "F1")] == pytest.approx([0.5, 1.0, 2 / 3])


def test_nothing_is_undefined_everywhere_but_in_the_counts_of_turns() -> None:
    scores = score_counts(VideoCounts())
    counts = {m.name for m in METRICS if m.is_count and not m.name.startswith(("dst_", "speaking_"))}
    assert {name for name, value in scores.items() if not math.isnan(value)} == counts - {"roots"}  # of a diagnosis
    assert score_counts(VideoCounts() + VideoCounts()).keys() == scores.keys()


def test_the_frame_of_a_turn_is_the_floor_and_rounding_does_not_move_it() -> None:
    assert [frame_at(time_s, 2.0) for time_s in (0.0, 0.49, 0.5, 0.99)] == [0, 0, 1, 1]
    assert frame_at(1.16, 25.0) == 29  # 1.16 * 25 is 28.999... in floating point
    assert frame_at(4.1, 30.0) == 123
    assert frame_at(-0.1, 2.0) == -1
    assert reference_frames(SAMPLE, "update") == [2, 4]


def test_undefined_is_an_empty_cell_and_null(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [{"video_id": "=1+1", "F1": math.nan, "recall": 0.5}])
    assert (tmp_path / "t.csv").read_text() == "video_id,F1,recall\n'=1+1,,0.5\n"
    write_json(tmp_path / "t.json", {"scores": {"F1": math.nan}, "list": (1.5, math.nan)})
    assert json.loads((tmp_path / "t.json").read_text()) == {"scores": {"F1": None}, "list": [1.5, None]}


@pytest.mark.parametrize("text", ["", "a\r\nb", 'a"b', "'=1", "''"])
def test_a_text_comes_back_from_csv(tmp_path: Path, text: str) -> None:
    write_csv(tmp_path / "t.csv", [{"text": text, "next": "b"}, {"text": "c", "next": "d"}])
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert unescape_formula(first["text"]) == text
    assert (first["next"], second) == ("b", {"text": "c", "next": "d"})
