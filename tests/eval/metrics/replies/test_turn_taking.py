import json
import math

import numpy as np
import pytest

from stepscope.eval.matching.turns import Match, Pair, ZeroCost, find_match
from stepscope.eval.metrics.replies.turn_taking import (
    TurnCounts,
    count_turns,
    match_window,
    matched_pairs,
    turn_metrics,
)
from tests.support.paths import GOLDEN


def match_of(scores: list[float], *, distance: int = 0, missed: int = 0, redundant: int = 0) -> Match:
    return Match(
        pairs=tuple(
            Pair(gen_frame=10 * number, ref_frame=10 * number + distance, cost=0.1, semantic_score=score)
            for number, score in enumerate(scores)
        ),
        missed=tuple(range(1, 1 + missed)),
        redundant=tuple(range(2, 2 + redundant)),
    )


def test_the_scores_of_two_videos_come_from_their_added_counts() -> None:
    first = count_turns(match_of([0.9, 0.5, 0.2], distance=3, missed=2), fps=2)
    second = count_turns(match_of([0.8], distance=-1, redundant=3), fps=4)
    # 0.9 and 0.8 exceed 0.5: M = 2 of M0 = 4; X = 2, R = 3
    counts = first + second
    assert counts == TurnCounts(
        num_matched=2,
        num_mismatched=2,
        num_missed=2,
        num_redundant=3,
        num_scored=3,
        semantic_score_sum=0.9 + 0.5 + 0.8,
        time_diff_sum_s=1.75,
    )
    assert sum([second, first], start=TurnCounts()) == counts
    metrics = turn_metrics(counts)
    assert metrics["jaccard_index"] == pytest.approx(2 / 9)  # 4 + 2 + 3
    assert metrics["precision"] == pytest.approx(2 / 7)  # 4 + 3
    assert metrics["recall"] == pytest.approx(2 / 6)  # 4 + 2
    assert metrics["F1"] == pytest.approx(4 / 13)  # 2 * (2/7) * (1/3) / (2/7 + 1/3) = (4/21) / (13/21)
    assert metrics["missing_rate"] == pytest.approx(2 / 6)
    assert metrics["redundant_rate"] == pytest.approx(3 / 7)
    assert metrics["semantic_score"] == pytest.approx(2.2 / 3)  # 0.9, 0.8 and the 0.5 that reaches the threshold
    assert metrics["time_diff"] == pytest.approx((3 / 2 + 1 / 4) / 2)


def test_the_threshold_is_exceeded_to_match_and_reached_to_be_averaged() -> None:
    match = match_of([0.5, 0.7])
    assert [pair.semantic_score for pair in matched_pairs(match)] == [0.7]
    assert [pair.semantic_score for pair in matched_pairs(match, semantic_threshold=0.4)] == [0.5, 0.7]
    counts = count_turns(match, fps=2, semantic_threshold=0.7)
    assert (counts.num_matched, counts.num_mismatched, counts.num_scored) == (0, 2, 1)


def test_a_silent_assistant_misses_all_and_has_no_precision() -> None:
    metrics = turn_metrics(count_turns(match_of([], missed=4), fps=2))
    assert (metrics["F1"], metrics["recall"], metrics["missing_rate"], metrics["jaccard_index"]) == (0, 0, 1, 0)
    assert all(math.isnan(metrics[name]) for name in ("precision", "redundant_rate", "semantic_score", "time_diff"))


@pytest.mark.parametrize(
    ("dataset", "fps", "window"),
    [
        ("ego4d/dialog-klg-sum_val_L4096_I1", 2, (-8, 17)),
        ("ego4d/narration_val_L4096_I1", 2, (-5, 5)),
        ("epickitchens", 2, (-3, 6)),
        ("holoassist", 2, (-3, 5)),
        ("egoexolearn", 2, (-4, 7)),
        ("Assembly101", 2, (-4, 8)),
        ("wtag", 2, (-6, 12)),
        ("our own videos", 2, (-5, 5)),
        ("holoassist", 1, (-1, 2)),  # -1.5 and 2.5 lose their halves toward 0
        ("wtag", 0.1, (0, 0)),
    ],
)
def test_windows_are_the_published_ones_in_whole_frames(dataset: str, fps: float, window: tuple[int, int]) -> None:
    assert match_window(dataset, fps=fps) == window


@pytest.mark.parametrize("zero_cost", ["keep", "drop"])
def test_the_corpus_scores_are_those_of_the_published_program(zero_cost: ZeroCost) -> None:
    golden = json.loads((GOLDEN / "corpus_metrics.json").read_text(encoding="utf-8"))
    counts = TurnCounts()
    for video in golden["videos"]:
        texts = [[dict(video[name]).get(frame, "") for frame in range(video["num_frames"])] for name in ("gen", "ref")]
        match = find_match(
            *texts,
            encode=lambda texts: np.array([golden["embeddings"][text] for text in texts]),
            match_window=tuple(golden["match_window"]),
            dist_func_factor=golden["dist_func_factor"],
            dist_func_power=golden["dist_func_power"],
            zero_cost=zero_cost,
        )
        counts += count_turns(match, fps=golden["fps"], semantic_threshold=golden["semantic_threshold"])
    metrics = turn_metrics(counts)
    text_scores = ("Bleu", "CIDEr", "METEOR")
    expected = {name: value for name, value in golden["expected"].items() if not name.startswith(text_scores)}
    assert len(expected) == 12
    assert metrics == pytest.approx(expected, abs=1e-5)
