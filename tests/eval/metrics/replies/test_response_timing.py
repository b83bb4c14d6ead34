"""Times of responses and repeated texts, by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.replies.repetition import count_repetition, normalize_text
from stepscope.eval.metrics.replies.response_timing import match_ovo
from tests.support.data.replies import scores, spans
from tests.support.data.strategies import BOAT

INSTANTS = replace(
    BOAT,
    fps=1.0,
    num_frames=60,
    turns=(Turn(time_s=10.0, role="assistant", text="gold"), Turn(time_s=30.0, role="assistant", text="gold")),
)


@pytest.mark.parametrize(
    ("truth", "detected", "hits"),
    [
        ([], [1.0], 0),
        ([10.0], [8.0], 1),  # 2 s away counts
        ([10.0], [7.9], 0),
        ([10.0, 12.0], [11.0], 1),  # a detection is used once
        ([10.0, 13.0], [11.5, 9.0], 1),  # the first listed one is used up, although 9 would leave 11.5 for 13
    ],
)
def test_each_true_time_uses_up_the_first_listed_detection(
    truth: list[float], detected: list[float], hits: int
) -> None:
    assert sum(match_ovo(truth, detected)) == hits


def test_ovo_timing_takes_means_over_videos_of_recall_and_precision() -> None:
    # One of two true times is hit, by one of four responses: recall 0.5, precision 0.25, F1 1/3.
    found = scores(INSTANTS, (12.0, "gold"), (20.0, "wrong"), (21.0, "wrong"), (40.0, "wrong"))
    assert found["OVO_timing_recall_2s"] == 0.5
    assert found["OVO_timing_precision_2s"] == 0.25
    assert found["OVO_timing_F1_2s"] == pytest.approx(1 / 3)
    assert scores(INSTANTS)["OVO_timing_F1_2s"] == 0.0
    assert math.isnan(scores(replace(INSTANTS, turns=()))["OVO_timing_F1_2s"])


def test_the_true_time_of_a_span_is_two_seconds_after_its_start() -> None:
    assert scores(spans((10, 30)), (14.0, "gold"))["OVO_timing_F1_2s"] == 1.0
    assert scores(spans((10, 30)), (15.0, "gold"))["OVO_timing_F1_2s"] == 0.0


def test_false_alarms_are_responses_in_quiet_frames_per_hour_of_them() -> None:
    # Turns at 10 and 30 s: frames 8-12 and 28-32 are not quiet, 50 of 60 s are. 3 alarms in 50 s are 216 an hour.
    found = scores(INSTANTS, (12.0, "gold"), (13.0, "wrong"), (27.0, "wrong"), (50.0, "wrong"))
    assert found["false_alarms_per_quiet_hour"] == pytest.approx(216)
    # The span 10-30 takes 8-32: 25 of 60 s.
    assert scores(spans((10, 30)), (20.0, "gold"), (40.0, "wrong"))["false_alarms_per_quiet_hour"] == pytest.approx(
        3600 / 35
    )


def test_the_first_decision_is_the_first_response_of_videos_that_have_one() -> None:
    assert scores(INSTANTS, (7.0, "gold"), (9.0, "gold"))["first_decision_s"] == 7.0
    assert math.isnan(scores(INSTANTS)["first_decision_s"])


def test_duplicates_are_counted_by_words_and_by_cosine() -> None:
    vectors = {"Cut it.": [1, 0], "cut it": [1, 0], "Cut that.": [0.95, 0.3], "Stop!": [0, 1]}
    texts = ["Cut it.", "Stop!", "cut it", "Cut that.", "Cut it."]
    counts = count_repetition(texts, encode=lambda some: np.array([vectors[text] for text in some]))
    assert (counts.num_responses, counts.num_equal, counts.num_similar) == (5, 2, 3)
    assert normalize_text(" Cut  IT!") == "cut it"
    assert normalize_text("!") != normalize_text("?")


def test_a_redundant_response_with_earlier_words_repeats_itself() -> None:
    found = scores(INSTANTS, (10.0, "gold"), (20.0, "Gold!"), (40.0, "wrong"), (50.0, "wrong"))
    assert found["failures_repeats_itself"] == 2
    assert found["failures_redundant"] == 1
    assert found["duplicate_ratio"] == 0.5
    assert found["num_redundant"] == 3
