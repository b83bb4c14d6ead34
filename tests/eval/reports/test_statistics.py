import itertools
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.loading import load_model
from stepscope.eval.data.loading import read_split
from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.matched_video import JudgedTurn, JudgedVideo, MatchOutcome
from stepscope.eval.reports.compare_runs import compare_runs
from stepscope.eval.reports.scoring import score_run
from stepscope.eval.reports.statistics import Difference, compare_scores, compare_turns, correct_differences
from stepscope.eval.reports.tables import format_differences
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.eval.runs.test_folder import outputs as silent_outputs
from tests.support.data.batches import SCORING, copies, make_worker_config, no_java, write_split
from tests.support.data.strategies import few
from tests.support.streams.batches import run_sample
from tests.support.streams.fakes import count_letters


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits(Counts):
    hits: float = 0.0
    turns: float = 0.0


def score(counts: Hits) -> dict[str, float]:
    return {"rate": ratio(counts.hits, counts.turns), "never": math.nan}


def rows(*hits: float) -> list[Hits]:
    return [Hits(hits=number, turns=4) for number in hits]


def test_three_videos_that_are_all_better_by_one_are_seen_by_hand() -> None:
    found = compare_scores(rows(1, 1, 1), rows(2, 2, 2), kind=Hits, score=score)["rate"]
    assert (found.a, found.b, found.difference) == (0.25, 0.5, 0.25)
    assert (found.interval.low, found.interval.high) == (0.25, 0.25)
    # of the 8 exchanges that of all and that of none, the observed order, lie 0.25 apart
    assert found.p_value == pytest.approx(2 / 8)


def test_where_not_all_orders_can_be_tried_the_observed_one_counts_beside_those_drawn() -> None:
    better = compare_scores(rows(*[1.0] * 20), rows(*[2.0] * 20), kind=Hits, score=score, num_resamples=99)["rate"]
    assert better.p_value == pytest.approx(1 / 100)  # none of 99 drawn orders of 20 videos keeps or exchanges all


def test_a_run_held_against_itself_differs_by_nothing() -> None:
    found = compare_scores(rows(1, 3, 2), rows(1, 3, 2), kind=Hits, score=score)["rate"]
    assert (found.difference, found.interval.low, found.interval.high, found.p_value) == (0, 0, 0, 1)


def test_the_videos_are_drawn_in_pairs() -> None:
    """B is better by exactly one everywhere, however the videos differ: paired, that leaves no doubt."""
    hits = np.random.default_rng(0).integers(0, 3, 30).tolist()
    found = compare_scores(rows(*hits), rows(*(number + 1 for number in hits)), kind=Hits, score=score)["rate"]
    assert found.interval.low == pytest.approx(0.25)
    assert found.interval.high == pytest.approx(0.25)
    assert found.p_value < 0.01


def test_what_is_undefined_stays_undefined() -> None:
    found = compare_scores(rows(1, 2), rows(2, 2), kind=Hits, score=score)["never"]
    assert math.isnan(found.difference)
    assert math.isnan(found.p_value)
    assert math.isnan(found.interval.low)
    alone = compare_scores(rows(1), rows(2), kind=Hits, score=score)["rate"]
    assert math.isnan(alone.interval.low)
    assert compare_scores([], [], kind=Hits, score=score)["rate"].p_value is math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays(Counts):
    delay_s: float = 0.0
    turns: float = 1.0


def score_delay(counts: Delays) -> dict[str, float]:
    return {"dst_delay_s": ratio(counts.delay_s, counts.turns)}


def compare_delays(a: Sequence[float], b: Sequence[float]) -> Difference:
    runs = ([Delays(delay_s=delay_s) for delay_s in run] for run in (a, b))
    return compare_scores(*runs, kind=Delays, score=score_delay)["dst_delay_s"]


def test_a_score_that_is_best_at_0_is_better_only_if_its_distance_differs() -> None:
    early_and_late = compare_delays([-1.0] * 8, [1.062] * 8)
    assert early_and_late.difference == pytest.approx(2.062)
    assert early_and_late.p_value == 2 / 2**8
    assert early_and_late.better_p_value == 1 - 70 / 2**8  # 0.062 apart, or 0 if 4 of 8 are exchanged
    late_and_later = compare_delays([1.0] * 8, [1.5] * 8)
    assert late_and_later.better_p_value == late_and_later.p_value == 2 / 2**8


def test_p_values_of_scores_shown_together_are_corrected_by_benjamini_hochberg() -> None:
    one = compare_delays([1.0] * 8, [1.5] * 8)
    p_values = {"a": 0.02, "b": 0.9, "c": 0.01, "d": math.nan}  # of three: 0.02 * 3 / 2, 0.9 * 3 / 3, 0.01 * 3 / 1
    found = correct_differences({name: replace(one, p_value=p, distance_p_value=None) for name, p in p_values.items()})
    corrected = {name: row.corrected_p for name, row in found.items()}
    assert corrected == pytest.approx({"a": 0.03, "b": 0.9, "c": 0.03, "d": math.nan}, nan_ok=True)
    assert {name: row.p_value for name, row in found.items()} == pytest.approx(p_values, nan_ok=True)
    apart = correct_differences({name: replace(one, distance_p_value=p) for name, p in p_values.items()})
    assert [row.corrected_better_p for row in apart.values()] == pytest.approx(list(corrected.values()), nan_ok=True)
    assert correct_differences({}) == {}


@few
@given(st.lists(st.tuples(*[st.sampled_from((-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0))] * 2), min_size=1, max_size=6))
def test_p_values_of_distances_are_those_of_all_exchanges_by_brute_force(videos: list[tuple[float, float]]) -> None:
    def distance(pairs: Sequence[tuple[float, float]]) -> float:
        a, b = (abs(sum(run)) / len(pairs) for run in zip(*pairs, strict=True))
        return float(abs(b - a))

    exchanges = [
        [pair if kept else pair[::-1] for pair, kept in zip(videos, order, strict=True)]
        for order in itertools.product((True, False), repeat=len(videos))
    ]
    expected = sum(distance(one) >= distance(videos) - 1e-9 for one in exchanges) / len(exchanges)
    assert compare_delays(*zip(*videos, strict=True)).better_p_value == pytest.approx(expected)


def test_turns_are_wrong_in_one_run_in_both_or_in_none() -> None:
    def judged(*verdicts: tuple[int, MatchOutcome, float]) -> JudgedVideo:
        turns = (
            JudgedTurn(role="assistant", frame_index=0, text="", outcome=verdict, reference=number, delay_s=delay_s)
            for number, verdict, delay_s in verdicts
        )
        return JudgedVideo(turns=tuple(turns), failures=())

    a = judged((0, "matched", 0), (1, "mismatched", 0), (2, "matched", 2.0))
    b = judged((0, "matched", 1.0), (1, "matched", 0), (3, "matched", 0))
    found = [turn.wrong_in for turn in compare_turns(a, b, references=range(5))]
    assert found == ["neither", "only A", "both", "only A", "both"]


@pytest.fixture(scope="module")
def folder(demo_manifest: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three videos: one that speaks and one that stays silent."""
    folder = tmp_path_factory.mktemp("compared")
    checkpoint = load_model(tiny_folder, device="cpu")
    split = write_split(folder, *copies(demo_manifest, folder, 3))
    for name, threshold in (("talks", 0.0), ("silent", 1.0)):
        work = make_worker_config(tiny_folder)
        work = replace(work, config=replace(work.config, speak_threshold=threshold))
        with RunFolder.open(folder / name, {}) as run:
            for sample in read_split(split).samples:
                result = run_sample(checkpoint, work, sample)
                run.save_video(result.record, result.outputs)
    return folder


def test_a_silent_run_misses_what_the_other_says(folder: Path) -> None:
    split = read_split(folder / "split.json")
    found = compare_runs(folder / "talks", folder / "silent", split, SCORING, encode=count_letters)
    assert [video.video_id for video in found.videos] == ["v0", "v1", "v2"]
    assert found.left_out == {}
    missed = found.differences["missing_rate"]
    assert (missed.b, missed.difference) == (1.0, 1.0 - missed.a)
    assert 0 < missed.p_value <= 1
    for video, sample in zip(found.videos, split.samples, strict=True):
        spoken = [turn for turn in video.turns if sample.turns[turn.reference].role == "assistant"]
        assert {turn.wrong_in for turn in spoken} <= {"both", "only B"}
        assert sum(video.count(who) for who in ("both", "only A", "only B", "neither")) == len(video.turns)
        assert len(video.turns) == sum(turn.role != "user" for turn in sample.turns)
    assert not any(math.isnan(value.a) or math.isnan(value.b) for value in found.differences.values())


def test_beside_a_run_without_states_only_messages_are_compared(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "silent", tmp_path / "by-token")
    RunFolder(tmp_path / "by-token").write_settings({"config": {"decision_policy": "streaming-eos"}})
    split = read_split(folder / "split.json")
    found = compare_runs(folder / "talks", tmp_path / "by-token", split, SCORING, encode=count_letters)
    for video, sample in zip(found.videos, split.samples, strict=True):
        assert {sample.turns[turn.reference].role for turn in video.turns} == {"assistant"}
    assert found.differences["failures_missed"].b > 0
    hidden = ("failures_wrong_update", "failures_missed_update", "failures_wrong_state")
    assert not found.differences.keys() & set(hidden), "they are not compared, which is no 0"
    assert all(math.isnan(scores[name]) for video in found.videos for scores in video.scores for name in hidden)
    lines = format_differences(found.differences, found.labels).splitlines()
    assert [line.split()[0] for line in lines if "failures" in line] == [
        "response",
        *(f"failures_{kind}" for kind in ("missed", "redundant", "wrong_text", "early_or_late", "repeats_itself")),
    ]
    assert not any(line.startswith("num_failures") for line in lines)
    both = compare_runs(folder / "talks", folder / "silent", split, SCORING, encode=count_letters)
    assert both.differences.keys() >= {*hidden, "num_failures"}
    assert both.labels == {}


@pytest.mark.parametrize(
    ("settings", "reused", "words", "problem"),
    [
        ({}, False, "", ""),
        ({}, True, "again reused kept embeddings in 3 of 3 videos", ""),
        ({"devices": ["cuda:0"]}, False, "the devices differ: not known in A, cuda:0 in B", ""),
    ],
)
def test_times_are_compared_only_where_nothing_but_the_model_made_them(
    folder: Path, tmp_path: Path, settings: dict[str, Any], reused: bool | None, words: str, problem: str
) -> None:
    split = read_split(folder / "split.json")
    with RunFolder.open(tmp_path / "again", settings) as again:
        for sample in split.samples:
            record = RunFolder(folder / "talks").record(sample.video_id)
            assert record is not None
            slower = [replace(o, latency_ms=9 * o.latency_ms) for o in RunFolder(folder / "talks").outputs(sample)]
            again.save_video(replace(record, reused_features=reused), slower)
    found = compare_runs(folder / "talks", again.path, split, SCORING, encode=count_letters, num_resamples=20)
    latency = found.differences["latency_p50_ms"]
    assert latency.b == pytest.approx(9 * latency.a)
    assert (found.times_problem, found.states_problem) == (words, problem)
    assert math.isnan(latency.difference) == bool(words)
    assert all(map(math.isnan, (latency.p_value, latency.better_p_value, latency.corrected_p, latency.interval.low)))
    assert not math.isnan(found.differences["missing_rate"].p_value)


def test_illegal_updates_are_counted_as_the_run_took_them(tmp_path: Path) -> None:
    steps = [{"id": "S1", "name": "hang the sail"}]
    record = {"video_id": "boat", "fps": 2.0, "num_frames": 3, "goal": "build", "steps": steps, "turns": []}
    split = read_split(write_split(tmp_path, record))
    (sample,) = split.samples
    states = {"apply": ("completed", "in_progress"), "refuse": ("not_started", "in_progress")}
    for illegal, (first, second) in states.items():
        silent = [replace(output, legality=None) for output in silent_outputs(3)]  # as other programs may write them
        outputs = [
            replace(silent[0], updates=("S1->complete",), dst_state={"S1": first}),
            replace(silent[1], updates=("S1->start",), dst_state={"S1": second}),
            replace(silent[2], dst_state={"S1": second}),
        ]
        with RunFolder.open(tmp_path / illegal, {"config": {"illegal_updates": illegal}}) as run:
            run.save_video(VideoRecord(video_id="boat", source=digest_sample(sample), num_frames=3), outputs)
    (video,) = compare_runs(tmp_path / "apply", tmp_path / "refuse", split, SCORING, encode=count_letters).videos
    assert [scores["dst_illegal"] for scores in video.scores] == [2, 1]  # the skip; then the step back, if it counted
    with no_java() as scorer:
        refused = score_run(tmp_path / "refuse", split, SCORING, encode=count_letters, scorer=scorer)
    assert refused.rows[0]["dst_illegal"] == 1


def test_unfinished_videos_are_left_out_by_name(folder: Path, tmp_path: Path) -> None:
    split = read_split(folder / "split.json")
    with pytest.raises(ValueError, match="no finished video in common"):
        compare_runs(folder / "talks", tmp_path, split, SCORING, encode=count_letters)
    RunFolder(folder / "silent").delete_video("v1")
    found = compare_runs(folder / "talks", folder / "silent", split, SCORING, encode=count_letters, num_resamples=20)
    assert found.left_out == {"v1": "not finished in silent"}
    assert [video.video_id for video in found.videos] == ["v0", "v2"]
