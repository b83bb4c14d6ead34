import json
import math
from dataclasses import replace
from typing import Any

import pytest

from stepscope.eval.metrics.videollm_online import LiveTurn, count_live, live_metrics, summarize_live
from tests.support.paths import GOLDEN

NAMES = {"lm_ppl", "frame_diff", "fluency", "lm_correctness"}


def live_turn(*silent: float, correct: str = "", late: tuple[float, ...] = ()) -> LiveTurn:
    """A turn whose tokens are written ``yn``: y correct; each has the likelihood 1/2."""
    return LiveTurn(
        silent_prob=silent,
        other_prob=tuple(1 - prob for prob in silent),
        token_correct=tuple(letter == "y" for letter in correct),
        token_nll=(math.log(2),) * len(correct),
        late_silent_prob=late,
        late_other_prob=tuple(1 - prob for prob in late),
    )


def test_the_golden_conversations_score_as_published() -> None:
    cases: list[dict[str, Any]] = json.loads((GOLDEN / "live_metrics.json").read_text())["cases"]
    assert len(cases) == 60
    for case in cases:
        turns = [
            LiveTurn(
                silent_prob=tuple(turn["silent_prob"]),
                other_prob=tuple(1 - prob for prob in turn["silent_prob"]),
                token_correct=tuple(token["correct"] for token in turn["tokens"]),
                token_nll=tuple(token["nll"] for token in turn["tokens"]),
                late_silent_prob=tuple(turn["late_silent_prob"]),
                late_other_prob=tuple(1 - prob for prob in turn["late_silent_prob"]),
            )
            for turn in case["turns"]
        ]
        assert live_metrics(turns, threshold=case["threshold"]) == pytest.approx(case["expected"], abs=1e-5)


def test_on_time_every_leading_token_counts() -> None:
    # F = 3, T = 4, C = 2 (yyn, the last y comes too late), speaks at the last frame: d = 0; (3 + 2) / (3 + 4)
    scores = live_metrics([live_turn(0.9, 0.9, 0.1, correct="yyny")], threshold=0)
    assert scores == pytest.approx({"lm_ppl": 2, "frame_diff": 0, "fluency": 5 / 7, "lm_correctness": 2 / 4})


def test_too_early_the_frames_after_the_first_word_are_lost() -> None:
    # F = 4, first speak at j = 1: d = 4 - 1 - 1 = 2; (4 - 2) / (4 + 1); that frame 2 is silent again changes nothing
    scores = live_metrics([live_turn(0.9, 0.1, 0.9, 0.1, correct="y")], threshold=0)
    assert (scores["frame_diff"], scores["fluency"]) == pytest.approx((2, 2 / 5))


@pytest.mark.parametrize(
    ("late", "next_frames", "diff"),
    [
        ((0.9, 0.1, 0.1), 3, 2),  # speaks at k = 1: d = -2
        ((0.9, 0.9, 0.1), 3, 2),  # looks at n = min(3, F - 1 = 2) frames, none speaks: d = -2
    ],
)
def test_too_late_the_frames_of_the_next_turn_decide(late: tuple[float, ...], next_frames: int, diff: int) -> None:
    # fluency of the first turn: F = 3, T = 1: late (3 - 1) / 4, on time (3 + 1) / 4; the next turn has no tokens
    turns = [
        live_turn(0.9, 0.9, 0.9, correct="y", late=late),
        live_turn(*[0.9] * (next_frames - 1), *[0.1][:next_frames]),
    ]
    scores = live_metrics(turns, threshold=0)
    num_timed = 2 if next_frames else 1  # a turn without frames has no time
    assert scores["frame_diff"] == pytest.approx(diff / num_timed)
    assert scores["fluency"] == pytest.approx(2 / 4 if diff else 1)


def test_a_frame_is_silent_only_if_silence_is_likeliest_and_reaches_the_threshold() -> None:
    turn = replace(live_turn(0.4, 0.4, 0.4), other_prob=(0.3, 0.5, 0.3))
    assert live_metrics([turn], threshold=0)["frame_diff"] == 1  # frame 1 speaks, 0.5 > 0.4: d = 3 - 1 - 1
    assert live_metrics([turn], threshold=0.4)["frame_diff"] == 1  # reached: as argmax
    assert live_metrics([turn], threshold=0.41)["frame_diff"] == 2  # frame 0 speaks: d = 3 - 1 - 0


def test_means_are_over_turns_then_over_samples() -> None:
    right, wrong = live_turn(0.1, correct="y"), live_turn(0.1, correct="n")
    # per sample 1 and (1 + 0 + 0) / 3; their mean (1 + 1/3) / 2 = 2/3, not the 2/4 of all turns
    one, other, empty = (count_live(turns, fps=2, threshold=0) for turns in ([right], [right, wrong, wrong], []))
    scores = summarize_live(one + other + empty)
    assert scores["live_lm_correctness"] == pytest.approx(2 / 3)
    # fluency with F = T = 1: right (1 + 1) / 2, wrong (1 + 0) / 2; (1 + 2/3) / 2
    assert scores["live_fluency"] == pytest.approx(5 / 6)


def test_time_diff_is_frame_diff_in_seconds() -> None:
    scores = summarize_live(count_live([live_turn(0.1, 0.9, 0.9)], fps=4, threshold=0))  # 2 frames early
    assert (scores["live_frame_diff"], scores["live_time_diff_s"]) == (2, 0.5)


@pytest.mark.parametrize("turns", [[], [live_turn()]])
def test_without_turns_or_data_every_score_is_nan(turns: list[LiveTurn]) -> None:
    scores = live_metrics(turns, threshold=0)
    assert set(scores) == NAMES
    assert all(math.isnan(score) for score in scores.values())
    assert all(math.isnan(score) for score in summarize_live(count_live(turns, fps=2, threshold=0)).values())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="token_correct and token_nll must have the same length; got 1 and 0"):
        replace(live_turn(0.5, correct="y"), token_nll=())
    with pytest.raises(ValueError, match="threshold must be within"):
        live_metrics([], threshold=60)
    with pytest.raises(ValueError, match=r"turn 0 never speaks and needs 1 frame after it in late_.*; got 0"):
        live_metrics([live_turn(0.9, 0.9), live_turn(0.1)], threshold=0)
