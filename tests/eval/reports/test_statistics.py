import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.matched_video import JudgedTurn, JudgedVideo, MatchOutcome
from stepscope.eval.reports.statistics import Difference, compare_scores, compare_turns


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


@pytest.mark.slow
def test_p_values_of_equal_systems_are_spread_evenly() -> None:
    rng = np.random.default_rng(0)
    p_values = [
        compare_scores(
            rows(*rng.integers(0, 5, 12).tolist()),
            rows(*rng.integers(0, 5, 12).tolist()),
            kind=Hits,
            score=score,
            num_resamples=200,
            seed=seed,
        )["rate"].p_value
        for seed in range(200)
    ]
    assert 0.02 <= np.mean(np.array(p_values) <= 0.1) <= 0.18  # 0.1 with a standard error of 0.02


def test_what_is_undefined_stays_undefined() -> None:
    found = compare_scores(rows(1, 2), rows(2, 2), kind=Hits, score=score)["never"]
    assert math.isnan(found.difference)
    assert math.isnan(found.p_value)
    assert math.isnan(found.interval.low)
    alone = compare_scores(rows(1), rows(2), kind=Hits, score=score)["rate"]
    assert math.isnan(alone.interval.low)
    assert compare_scores([], [], kind=Hits, score=score)["rate"].p_value is math.nan


def test_runs_of_other_videos_are_refused() -> None:
    with pytest.raises(ValueError, match="the same videos; got 1 and 2"):
        compare_scores(rows(1), rows(1, 2), kind=Hits, score=score)


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
