import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stepscope.eval.matching.turns import Match, ZeroCost, find_match
from stepscope.eval.matching.updates import TimedUpdate, match_updates

VECTORS = {
    "cut": [1.0, 0.0, 0.0, 0.0],
    "uncut": [-1.0, 0.0, 0.0, 0.0],
    "slice": [0.8, 0.6, 0.0, 0.0],
    "mix": [0.5, 0.5, 0.5, 0.5],  # |cos| with cut and pour is exactly 0.5
    "pour": [0.0, 1.0, 0.0, 0.0],
    "nothing": [0.0, 0.0, 0.0, 0.0],
}
EXACT = ("cut", "uncut", "mix", "pour")  # equal texts have a cosine of exactly 1 in float32


class TableEncoder:
    """Looks its vectors up, and remembers what it was asked."""

    def __init__(self, table: dict[str, list[float]] | None = None) -> None:
        self.table = VECTORS if table is None else table
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> NDArray[np.float64]:
        self.calls.append(texts)
        return np.array([self.table[text] for text in texts])


def said(num_frames: int, turns: dict[int, str]) -> list[str]:
    return [turns.get(frame, "") for frame in range(num_frames)]


def outcome(match: Match) -> tuple[Any, ...]:
    return tuple((pair.gen_frame, pair.ref_frame) for pair in match.pairs), match.missed, match.redundant


def test_a_reference_is_matched_another_missed_and_a_prediction_redundant() -> None:
    gen, ref = said(6, {1: "slice", 4: "pour"}), said(6, {2: "cut", 5: "cut"})
    match = find_match(gen, ref, encode=TableEncoder(), match_window=(-2, 2))
    # slice -> cut at 2: 1 - 0.8 + 0.3 * (1 / 2) ** 1.5 = 0.2 + 0.106066 = 0.306066, less than the 1 of silence at 1.
    # pour -> cut at 5: 1 - 0 + 0.106066 = 1.106066, more than the 1 of silence at 4.
    assert outcome(match) == (((1, 2),), (5,), (4,))
    assert match.pairs[0].cost == pytest.approx(0.306066, abs=1e-6)
    assert match.pairs[0].semantic_score == pytest.approx(0.8, abs=1e-6)


def test_the_least_total_cost_counts_and_not_the_best_single_pair() -> None:
    gen, ref = said(4, {1: "slice", 2: "slice"}), said(4, {2: "cut", 3: "cut"})
    match = find_match(gen, ref, encode=TableEncoder(), match_window=(0, 1))
    # greedy: 2 -> 2 (0.2) and 1 -> silence at 1 (1) = 1.2; together: 1 -> 2 and 2 -> 3, 2 * (0.2 + 0.3) = 1.0
    assert outcome(match) == (((1, 2), (2, 3)), (), ())


def test_factor_and_power_weigh_the_distance() -> None:
    gen, ref = said(5, {0: "cut"}), said(5, {2: "cut"})
    options = {"encode": TableEncoder(), "match_window": (0, 4)}
    # 0.5 * (2 / 4) ** 2 = 0.125
    match = find_match(gen, ref, **options, dist_func_factor=0.5, dist_func_power=2)  # type: ignore[arg-type]
    assert match.pairs[0].cost == pytest.approx(0.125)
    # the longer side of the window counts: 0.3 * (1 / 4) ** 1.5 = 0.0375
    match = find_match(said(5, {1: "cut"}), said(5, {0: "cut"}), encode=TableEncoder(), match_window=(-4, 1))
    assert match.pairs[0].cost == pytest.approx(0.0375)
    # 5 * (2 / 4) ** 1.5 = 1.77 is more than the 1 of silence
    assert find_match(gen, ref, **options, dist_func_factor=5).redundant == (0,)  # type: ignore[arg-type]


def test_the_ends_of_the_window_belong_to_it_and_the_frame_behind_does_not() -> None:
    for distance, matched in ((-3, 0), (-2, 1), (1, 1), (2, 0)):
        ref = said(9, {4 + distance: "cut"})
        match = find_match(said(9, {4: "cut"}), ref, encode=TableEncoder(), match_window=(-2, 1))
        assert len(match.pairs) == matched, distance


def test_an_opposite_vector_counts_as_equal_and_an_empty_one_as_foreign() -> None:
    gen, ref = ["cut", "", "nothing"], ["uncut", "", "cut"]
    match = find_match(gen, ref, encode=TableEncoder(), match_window=(0, 0))
    # |cos(cut, uncut)| = |-1|, so the cost is 0; a vector of length 0 has the cosine 0
    assert [(pair.cost, pair.semantic_score) for pair in match.pairs] == [(0.0, 1.0), (1.0, 0.0)]


def test_no_frames_and_no_words_match_nothing() -> None:
    encoder = TableEncoder()
    assert find_match([], [], encode=encoder, match_window=(-2, 2)) == Match(pairs=(), missed=(), redundant=())
    assert outcome(find_match([""], [""], encode=encoder, match_window=(-2, 2))) == ((), (), ())
    assert outcome(find_match(["", ""], ["", "cut"], encode=encoder, match_window=(-2, 2))) == ((), (1,), ())
    assert outcome(find_match(["cut", ""], ["", ""], encode=encoder, match_window=(-2, 2))) == ((), (), (0,))
    assert encoder.calls == []


def test_perfect_predictions_match_themselves_with_keep_and_lose_themselves_with_drop() -> None:
    texts = said(9, {1: "cut", 4: "pour", 7: "mix"})
    kept = find_match(texts, texts, encode=TableEncoder(), match_window=(-1, 1))
    assert outcome(kept) == (((1, 1), (4, 4), (7, 7)), (), ())
    assert all(pair.cost == 0 and pair.semantic_score == 1 for pair in kept.pairs)
    dropped = find_match(texts, texts, encode=TableEncoder(), match_window=(-1, 1), zero_cost="drop")
    assert outcome(dropped) == ((), (1, 4, 7), (1, 4, 7))


def test_more_pairs_than_are_compared_at_once_are_all_compared() -> None:
    rng = np.random.default_rng(0)
    num_frames = 400  # 400 * 31 pairs of texts, three portions
    table = {str(number): list(vector) for number, vector in enumerate(rng.standard_normal((num_frames, 8)))}
    order = rng.permutation(num_frames // 4)
    # within each block of four frames the references are the predictions in another order: only they cost little
    ref = [str(number) for number in range(num_frames)]
    gen = [str(4 * (frame // 4) + (frame + 1 + order[frame // 4] % 3) % 4) for frame in range(num_frames)]
    match = find_match(gen, ref, encode=TableEncoder(table), match_window=(-15, 15), dist_func_factor=0)
    assert outcome(match)[0] == tuple((frame, int(gen[frame])) for frame in range(num_frames))


def brute_force(
    gen: list[str], ref: list[str], *, window: tuple[int, int], zero_cost: ZeroCost
) -> set[tuple[Any, ...]]:
    """Return the outcomes of all assignments of least cost; empty where there is no full one."""
    left, right = window

    def cost(i: int, j: int) -> float:
        cosine = abs(float(np.dot(VECTORS[gen[i]], VECTORS[ref[j]]))) if ref[j] else 0.0
        total = 1 - cosine + 0.3 * (abs(i - j) / max(-left, right, 1)) ** 1.5
        return total if left <= j - i <= right and not (total == 0 and zero_cost == "drop") else float("inf")

    rows = [i for i, text in enumerate(gen) if text]
    results: dict[tuple[Any, ...], float] = {}
    for frames in itertools.permutations(range(len(ref)), len(rows)):
        pairs = tuple((i, j) for i, j in zip(rows, frames, strict=True) if ref[j])
        missed = tuple(j for j, text in enumerate(ref) if text and j not in frames)
        redundant = tuple(i for i, j in zip(rows, frames, strict=True) if not ref[j])
        total = sum(cost(i, j) for i, j in zip(rows, frames, strict=True))
        result = pairs, missed, redundant
        results[result] = min(total, results.get(result, float("inf")))
    least = min(results.values())
    return {result for result, total in results.items() if total < float("inf") and total <= least + 1e-6}


@settings(max_examples=150)
@given(
    frames=st.lists(st.tuples(st.sampled_from(("", *EXACT)), st.sampled_from(("", *EXACT))), min_size=1, max_size=6),
    window=st.tuples(st.integers(-3, 0), st.integers(0, 3)),
    zero_cost=st.sampled_from(("keep", "drop")),
)
def test_no_other_assignment_costs_less(
    frames: list[tuple[str, str]], window: tuple[int, int], zero_cost: ZeroCost
) -> None:
    gen, ref = [texts[0] for texts in frames], [texts[1] for texts in frames]
    best = brute_force(gen, ref, window=window, zero_cost=zero_cost)
    if best:
        match = find_match(gen, ref, encode=TableEncoder(), match_window=window, zero_cost=zero_cost)
        assert outcome(match) in best
    else:
        assert zero_cost == "drop"
        with pytest.raises(ValueError, match="no full matching"):
            find_match(gen, ref, encode=TableEncoder(), match_window=window, zero_cost=zero_cost)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"ref": ["cut"]}, "one text per frame; got 2 and 1"),
        ({"match_window": (1, 2)}, "left <= 0 <= right"),
        ({"dist_func_factor": -0.1}, "dist_func_factor must be a number from 0"),
        ({"encode": lambda texts: np.ones((1, 2))}, r"2 finite vectors \[N, D\]; got the shape \(1, 2\)"),
    ],
)
def test_arguments_that_fit_no_video_are_refused(changed: dict[str, Any], named: str) -> None:
    fitting: dict[str, Any] = {
        "gen": ["cut", ""],
        "ref": ["pour", ""],
        "encode": TableEncoder(),
        "match_window": (-2, 2),
    }
    find_match(**fitting)
    with pytest.raises(ValueError, match=named):
        find_match(**{**fitting, **changed})


Timed = Iterable[tuple[int, str]]


def pairs(gen: Timed, ref: Timed, *, reach: int = 5) -> list[tuple[int, int]]:
    sides = [[TimedUpdate(frame_index=frame, text=text) for frame, text in side] for side in (gen, ref)]
    links = match_updates(sides[0], sides[1], reach=reach)
    return [(link.gen_index, link.ref_index) for link in links]


def test_updates_are_paired_by_text_before_time_and_one_to_one() -> None:
    # two updates at one frame, written in the other order
    assert pairs([(4, "S2->start"), (4, "S1->complete")], [(4, "S1->complete"), (4, "S2->start")]) == [(0, 1), (1, 0)]
    # the same update twice: the nearer stands for the reference
    assert pairs([(1, "S1->start"), (3, "S1->start")], [(4, "S1->start")]) == [(1, 0)]
    # exact 3 frames away costs 0.3 * (3/5)^1.5 = 0.14, the same step at the frame 0.5
    assert pairs([(4, "S1->complete"), (1, "S1->start")], [(4, "S1->start")]) == [(1, 0)]
    # the same step 2 frames away costs 0.5 + 0.3 * (2/5)^1.5 = 0.58, another step at the frame 1
    assert pairs([(4, "S2->start"), (2, "S1->complete")], [(4, "S1->start")]) == [(1, 0)]
    # one exact pair and one alone (0.08 + 1) cost less than two pairs of the same step (0.71 + 0.64)
    gen, ref = [(0, "S1->complete"), (6, "S1->start")], [(4, "S1->start"), (9, "S1->complete")]
    assert pairs(gen, ref) == [(1, 0)]
    # what is left is paired too, but never instead of an exact pair: 0 can only reach the reference of 1
    assert pairs([(0, "S2->start"), (6, "S1->start")], [(4, "S1->start"), (9, "S3->start")]) == [(1, 0)]
    assert pairs([(4, "S2->start")], [(6, "S1->start")]) == [(0, 0)]
    # of two references at one frame the one of the same transition
    assert pairs([(4, "S3->start")], [(4, "S1->complete"), (4, "S2->start")]) == [(0, 1)]
    assert pairs([(4, "S1 is done")], [(4, "S1->start")]) == []
    assert pairs([], [(4, "S1->start")]) == pairs([(4, "S1->start")], []) == pairs([], []) == []
