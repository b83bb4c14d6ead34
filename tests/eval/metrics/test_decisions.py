import itertools
import math
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    precision_recall_fscore_support,
    roc_auc_score,
)

from stepscope.eval.matching import updates
from stepscope.eval.matching.updates import assign, assign_pairs, find_near
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.decisions import TOLERANCES_S, DecisionCounts, count_decisions, summarize_decisions
from stepscope.eval.reports.charts import precision_recall, reliability, roc

INF = float("inf")
FPS = 2.0


def counts(probs: Sequence[float], expected_frames: Sequence[int], *, threshold: float = 0.5) -> DecisionCounts:
    decided = [prob > threshold for prob in probs]
    return count_decisions(probs, decided, expected_frames=expected_frames, fps=FPS)


def events(num_frames: int, decided: Sequence[int], expected: Sequence[int]) -> dict[str, float]:
    flags = [frame in decided for frame in range(num_frames)]
    return summarize_decisions(
        count_decisions([float(flag) for flag in flags], flags, expected_frames=expected, fps=FPS)
    )


def test_frames_score_as_a_classifier() -> None:
    # frames:   0    1    2    3    4     decided 0 2 3, expected 0 1: TP 1 (0), FP 2 (2 3), FN 1 (1), TN 1 (4)
    scores = summarize_decisions(counts([0.9, 0.4, 0.6, 0.8, 0.1], [0, 1]))
    assert scores["accuracy"] == pytest.approx(2 / 5)
    assert scores["balanced_accuracy"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert scores["precision"] == pytest.approx(1 / 3)
    assert scores["recall"] == pytest.approx(1 / 2)
    assert scores["f1"] == pytest.approx(2 * 1 / (2 * 1 + 2 + 1))
    assert scores["talk_ratio"] == pytest.approx(3 / 2)
    # by probability 0+ 3- 2- 1+ 4-: precision 1/1 at recall 1/2, 2/4 at recall 1: 1/2 * 1 + 1/2 * 2/4
    assert scores["average_precision"] == pytest.approx(3 / 4)
    # pairs (expected, other) in right order: 0 beats 3; 1 beats only frame 4: (3 + 1) / 6
    assert scores["auroc"] == pytest.approx(4 / 6)
    # (0.1^2 + 0.6^2 + 0.6^2 + 0.8^2 + 0.1^2) / 5 = (0.01 + 0.36 + 0.36 + 0.64 + 0.01) / 5
    assert scores["brier"] == pytest.approx(1.38 / 5)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.5001, 0.9, 1.0]), st.booleans()), min_size=2, max_size=30),
    st.integers(1, 3),
)
def test_what_scikit_learn_computes_has_its_values_under_any_weights(
    frames: list[tuple[float, bool]], weight: int
) -> None:
    probs, expected = [prob for prob, _ in frames], [does for _, does in frames]
    assume(0 < sum(expected) < len(expected))
    other_probs, other_expected = [0.3, 0.6], [True, False]
    made = [counts(p, np.flatnonzero(e).tolist()) for p, e in ((probs, expected), (other_probs, other_expected))]
    scores = summarize_decisions(Pool(made, DecisionCounts).total(np.array([weight, 2.0])))
    all_expected = weight * expected + 2 * other_expected
    all_probs = np.array(weight * probs + 2 * other_probs)
    precision, recall, f1, _ = precision_recall_fscore_support(
        all_expected, all_probs > 0.5, average="binary", zero_division=np.nan
    )
    assert scores["precision"] == pytest.approx(precision, nan_ok=True)
    assert (scores["recall"], scores["f1"]) == pytest.approx((recall, f1))
    assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(all_expected, all_probs > 0.5))
    assert scores["average_precision"] == pytest.approx(average_precision_score(all_expected, all_probs))
    assert scores["auroc"] == pytest.approx(roc_auc_score(all_expected, all_probs))


def test_calibration_is_over_ten_bins_of_equal_width() -> None:
    # bin 1 holds 0.12 and 0.18 (0.2 belongs to bin 2), bin 9 holds 0.9 and 1.0
    made = counts([0.12, 0.18, 0.2, 0.9, 1.0], [1, 3])
    assert made.bin_frames == (0, 2, 1, 0, 0, 0, 0, 0, 0, 2)
    bins = reliability(made)
    assert [item["num_frames"] for item in bins] == [2, 1, 2], "empty bins have no share"
    assert (bins[0]["mean_prob"], bins[0]["expected_share"]) == pytest.approx((0.15, 0.5))
    # (2 * |0.15 - 0.5| + 1 * |0.2 - 0| + 2 * |0.95 - 0.5|) / 5 = (0.7 + 0.2 + 0.9) / 5
    assert summarize_decisions(made)["ece"] == pytest.approx(1.8 / 5)


def test_the_curves_of_a_sparse_signal_pass_through_the_decisions_of_the_run() -> None:
    made = counts([0.9, math.nan, 0.2, 0.7], [0, 1])  # decided 0 and 3; nothing is known of the expected frame 1
    scores = summarize_decisions(made)
    assert (scores["precision"], scores["recall"]) == (0.5, 0.5)
    assert {"threshold": 0.5, "precision": 0.5, "recall": 0.5} in precision_recall(made)
    corners = [(point["false_positive_rate"], point["recall"]) for point in roc(made)]
    assert corners == [(0, 0), (0, 0.5), (1, 0.5)]  # through (0.5, 0.5)


def test_events_score_within_a_tolerance() -> None:
    # decided 4 10 30, expected 5 14 50 at 2 fps: distances 0.5 s, 2 s, 10 s; 1 pair from 0.5 s on, 2 from 2 s on
    scores = events(60, [4, 10, 30], [5, 14, 50])
    f1 = [scores[f"event_f1_{tolerance:g}s"] for tolerance in TOLERANCES_S]
    assert f1 == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert (scores["event_precision_2s"], scores["event_recall_0.5s"]) == pytest.approx((2 / 3, 1 / 3))
    # trapezoids 0.5 * 1/6 + 0.5 * 1/3 + 1 * 1/2 + 3 * 2/3 = 33/12, over 5 s
    assert scores["event_f1_area"] == pytest.approx(33 / 12 / 5)
    # both early: -0.5 s and -2 s
    assert (scores["lead_mean_s"], scores["lead_median_s"]) == pytest.approx((-1.25, -1.25))


def test_most_pairs_come_first_and_least_distance_second() -> None:
    # 2 s = 4 frames: nearest first takes 12-12 and leaves 8 and 16 alone; 8-12 and 12-16 are two pairs
    assert events(30, [8, 12], [12, 16])["event_recall_2s"] == 1
    # within 5 s = 10 frames two pairs: 10-10 and 13-11 (0 s and 1 s late), not 13-20 (3.5 s early)
    assert events(30, [10, 13], [10, 11, 20])["lead_mean_s"] == 0.5


def test_without_frames_everything_is_nan() -> None:
    for made in (DecisionCounts(), counts([], [])):
        scores = summarize_decisions(made)
        assert all(math.isnan(score) for name, score in scores.items() if not name.startswith("num_"))


CLASS_SCORES = ("balanced_accuracy", "precision", "recall", "f1", "average_precision", "auroc")


@pytest.mark.parametrize(("probs", "expected"), [([0.9, 0.1], []), ([0.9, 0.1], [0, 1])])
def test_where_one_class_is_absent_its_scores_are_nan(probs: list[float], expected: list[int]) -> None:
    scores = summarize_decisions(counts(probs, expected))
    assert all(math.isnan(scores[name]) for name in CLASS_SCORES)
    assert not math.isnan(scores["accuracy"])


def test_false_alarms_in_a_silent_video_still_cost_event_precision() -> None:
    scores = events(4, [1], [])
    assert (scores["event_precision_5s"], scores["event_f1_5s"]) == (0, 0)
    assert math.isnan(scores["event_recall_5s"])
    assert math.isnan(scores["talk_ratio"])


def test_silence_has_no_precision_but_an_f1_of_zero() -> None:
    scores = summarize_decisions(counts([0.1, 0.2], [0]))
    assert (scores["recall"], scores["f1"], scores["event_f1_0s"], scores["talk_ratio"]) == (0, 0, 0, 0)
    assert math.isnan(scores["precision"])
    assert math.isnan(scores["event_precision_0s"])
    assert math.isnan(scores["lead_median_s"])


def test_a_split_pools_its_videos_and_never_pairs_across_them() -> None:
    one, other = counts([0.9, 0.1], [0]), counts([0.1, 0.2, 0.7], [1])
    pooled = summarize_decisions(one + other)
    # frames right 2 of 2 and 1 of 3; events: 0-0 in the first, 2-1 (0.5 s late) in the second
    assert pooled["accuracy"] == pytest.approx(3 / 5)
    assert (pooled["event_f1_0s"], pooled["event_f1_1s"], pooled["lead_mean_s"]) == pytest.approx((0.5, 1, 0.25))
    assert summarize_decisions(sum([other, one], start=DecisionCounts())) == pooled


@given(
    costs=st.integers(0, 3).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([0, 1, 2, 5, INF]), min_size=width, max_size=width), min_size=0, max_size=4
        )
    ),
    unmatched_cost=st.sampled_from([None, 1.5]),
)
@example(costs=[[0, 1], [1, 5]], unmatched_cost=1.5)
def test_an_assignment_is_as_good_as_the_best_of_all(costs: list[list[float]], unmatched_cost: float | None) -> None:
    width = len(costs[0]) if costs else 2
    table = np.array(costs, dtype=float).reshape(len(costs), width)
    links = assign(table, unmatched_cost=unmatched_cost)
    assert [link.gen_index for link in links] == sorted({link.gen_index for link in links})
    assert len({link.ref_index for link in links}) == len(links)

    def price(pairs: Sequence[tuple[int, int]]) -> float:
        alone = 100.0 if unmatched_cost is None else unmatched_cost
        return float(sum(table[pair] for pair in pairs)) + alone * (len(costs) - len(pairs))

    sets = (
        tuple(zip(rows, columns, strict=True))
        for size in range(min(table.shape) + 1)
        for rows in itertools.combinations(range(len(costs)), size)
        for columns in itertools.permutations(range(width), size)
    )
    assert price([(link.gen_index, link.ref_index) for link in links]) == min(price(pairs) for pairs in sets)


def test_many_events_take_the_memory_of_the_pairs_within_the_widest_tolerance() -> None:
    num_frames = 5000  # 21 references within 5 s of each event; a table of all pairs has 25 million cells, 200 MB
    tracemalloc.start()
    try:
        found = count_decisions([1.0] * num_frames, [True] * num_frames, expected_frames=range(num_frames), fps=FPS)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()
    assert found.num_pairs == (num_frames,) * len(TOLERANCES_S)
    assert set(found.leads_s.numbers) == {0.0}


@given(
    gen=st.sets(st.integers(0, 40)),
    ref=st.sets(st.integers(0, 40)),
    reach=st.integers(0, 8),
    cost=st.sampled_from([None, 3.0]),
)
def test_without_a_table_the_pairs_are_as_many_and_as_near(
    gen: set[int], ref: set[int], reach: int, cost: float | None
) -> None:
    gen_frames, ref_frames = np.array(sorted(gen), dtype=np.int64), np.array(sorted(ref), dtype=np.int64)
    pairs = find_near(gen_frames, ref_frames, reach=reach)
    costs = np.abs(gen_frames[pairs[0]] - ref_frames[pairs[1]]).astype(float)
    assert len(costs) == sum(abs(one - other) <= reach for one in gen for other in ref)

    def total(max_cells: int) -> tuple[float, int]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(updates, "_MAX_CELLS", max_cells)
            links = assign_pairs(pairs, costs, shape=(len(gen), len(ref)), unmatched_cost=cost)
        assert len({link.gen_index for link in links}) == len({link.ref_index for link in links}) == len(links)
        spent = sum(abs(gen_frames[link.gen_index] - ref_frames[link.ref_index]) for link in links)
        return float(spent) + (cost or 1000.0) * (len(gen) - len(links)), len(links) if cost is None else 0

    assert total(-1) == total(2**22)


def test_more_pairs_than_memory_is_meant_for_are_refused_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "MAX_PAIRS", 99)
    with pytest.raises(ValueError, match="would compare 100 pairs of this video, more than 99; lower its frame rate"):
        find_near(np.zeros(10, np.int64), np.zeros(10, np.int64), reach=0)
