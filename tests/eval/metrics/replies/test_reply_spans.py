"""Scores of reply spans, by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.eval.matching.grading import CosineBands, Reply
from stepscope.eval.metrics.replies.reply_spans import (
    GradedReply,
    SpanCounts,
    TimedReply,
    count_spans,
    grade_span,
    span_area,
)
from tests.support.data.replies import grade, scores, spans
from tests.support.data.strategies import BOAT

EPS = 1e-7


@pytest.mark.parametrize(
    ("graded", "weight", "expected"),
    [
        ([], 0.0, 0.25),  # 0.5 held over 10 s / (2 * 10)
        ([(15.0, 2)], 0.0, 0.625),  # (5 * 0.5 + 5 * 2) / 20
        ([(15.0, 2)], 0.5, 0.8125),  # the step is at 2.5 s: (2.5 * 0.5 + 7.5 * 2) / 20
        ([(15.0, 2)], 1.0, 1.0),
        ([(10.0, 0)], 0.0, 0.0),  # at once and wrong: worse than silence
        ([(12.0, 1), (16.0, 2)], 0.0, 0.65),  # (2 * 0.5 + 4 * 1 + 4 * 2) / 20
    ],
)
def test_the_area_of_a_span_is_that_worked_by_hand(
    graded: list[tuple[float, float]], weight: float, expected: float
) -> None:
    replies = [GradedReply(*one) for one in graded]
    assert span_area(replies, start_s=10.0, end_s=20.0, weight=weight) == pytest.approx(expected)


def test_always_silent_scores_25_at_every_weight() -> None:
    found = scores(spans((10, 20), (30, 33)))
    assert [found[f"PAUC_w{weight}"] for weight in ("0", "0.5", "1")] == [25.0] * 3
    assert found["PAUC_silent"] == 25.0
    assert found["span_coverage"] == 0.0
    assert found["span_redundancy"] == 1.0
    assert found["span_first_reply_delay_s"] == 6.5  # (10 + 3) / 2: the lengths
    assert found["span_F1"] == 0.0


def test_replies_outside_every_span_cost_pauc_nothing_but_span_f1() -> None:
    without, noisy = (
        scores(spans((10, 20)), (15.0, "right")),
        scores(spans((10, 20)), (2.0, "wrong"), (15.0, "right"), (40.0, "wrong"), (41.0, "wrong")),
    )
    assert without["PAUC_w0"] == noisy["PAUC_w0"] == 62.5
    assert without["span_F1"] == 1.0
    assert noisy["span_F1"] == pytest.approx(2 / 5)  # S = 1, three replies outside, none missed
    assert noisy["span_replies_inside"] == 0.25


def test_scores_of_two_spans_are_means_over_spans() -> None:
    # Span 10-20: replies at 12 (grade 1) and 16 (with the first: grade 2). Span 30-34: none. One reply at 50.
    found = scores(spans((10, 20), (30, 34)), (12.0, "half"), (16.0, "right"), (50.0, "wrong"))
    assert found["PAUC_w0"] == pytest.approx(100 * (0.65 + 0.25) / 2)
    assert found["PAUC_w1"] == pytest.approx(100 * (1.0 + 0.25) / 2)
    assert found["span_coverage"] == 0.5
    assert found["span_redundancy"] == 1.0  # (|1 - 2| + |1 - 0|) / 2
    assert found["span_first_reply_delay_s"] == 3.0  # (2 + 4) / 2
    assert found["span_iou"] == pytest.approx(0.2)  # span 1: [12, 16] of [10, 20] is 0.4; span 2: a point is 0
    assert found["span_F1"] == pytest.approx(2 / (2 + 1 + 1))
    assert found["num_spans"] == 2


def test_an_exact_repeat_is_not_graded_again() -> None:
    turn = spans((10, 20)).turns[0]
    replies = [TimedReply(12.0, "half"), TimedReply(13.0, "half"), TimedReply(16.0, "right")]
    assert grade_span(replies, turn, question="", grade=grade) == [GradedReply(12.0, 1), GradedReply(16.0, 2)]


@pytest.mark.parametrize(
    ("related_end_s", "expected"),
    [
        (None, [GradedReply(12.0, 2), GradedReply(16.0, 0)]),
        (14.0, [GradedReply(12.0, 2)]),  # the lower grade after the evidence is dropped
        (17.0, [GradedReply(12.0, 2), GradedReply(16.0, 0)]),
        (11.0, [GradedReply(12.0, 2), GradedReply(16.0, 0)]),  # no grade inside: none is lower
    ],
)
def test_a_lower_grade_after_the_evidence_is_dropped(related_end_s: float | None, expected: list[GradedReply]) -> None:
    turn = spans((10, 20), related_end_s=related_end_s).turns[0]
    replies = [TimedReply(12.0, "right"), TimedReply(16.0, "wrong")]
    assert grade_span(replies, turn, question="", grade=grade) == expected


def test_a_reply_in_the_own_frame_of_a_turn_is_inside_its_span_but_before_it_for_pauc() -> None:
    # At 1 fps, the span from 10.3 to 20.6 s has the frames 10 to 20.
    sample = spans((10.3, 20.6))
    found = scores(sample, (10.0, "gold"))
    assert found["span_coverage"] == found["span_replies_inside"] == found["span_F1"] == 1.0
    assert found["span_first_reply_delay_s"] == found["span_redundancy"] == found["num_failures"] == 0.0
    assert found["PAUC_w1"] == 25.0
    assert found["false_alarms_per_quiet_hour"] == 0.0
    assert scores(sample)["span_first_reply_delay_s"] == 10.0  # from frame 10 to 20
    assert scores(sample, (20.0, "gold"))["span_first_reply_delay_s"] == 10.0
    assert scores(sample, (21.0, "gold"))["span_coverage"] == 0.0


def test_the_grade_of_a_span_is_that_of_all_replies_in_its_frames() -> None:
    found = scores(spans((10.3, 20.6)), (10.0, "half"), (12.0, "right"), (13.0, "wrong"))
    # The frames have "half", "half right" and a text that no list grades, 0; PAUC has "right" and "right wrong", 0.
    assert found["span_F1"] == 0.0
    assert found["span_redundancy"] == 2.0
    assert found["PAUC_w1"] == 0.0
    alone = scores(spans((10.3, 20.6)), (10.0, "right"), (12.0, "half"))
    assert (alone["span_F1"], alone["PAUC_w1"]) == (1.0, 50.0)  # grade 1 is half right, and no reply is outside


TIMES = st.integers(0, 2999).map(lambda number: number / 100)


@given(
    st.lists(st.tuples(TIMES, st.integers(1, 800)), min_size=1, max_size=3),
    st.lists(st.integers(0, 59), unique=True, max_size=6),
    st.sampled_from((0.4, 1.0, 2.0, 2.5)),
)
def test_span_scores_off_the_grid_of_frames_are_those_of_brute_force(
    given_spans: list[tuple[float, int]], frames: list[int], fps: float
) -> None:
    sample = spans(*((start, min(start + length / 100, 30.0)) for start, length in sorted(given_spans)))
    sample = replace(sample, fps=fps, num_frames=int(31 * fps) + 1)
    frames = sorted(frame for frame in frames if frame < sample.num_frames)
    found = scores(sample, *((frame / fps, "gold") for frame in frames))
    # A frame lasts until the next one; it is inside a span that it meets, at its very start or end too.
    grid = [
        {
            frame
            for frame in range(sample.num_frames)
            if (frame + 1) / fps > turn.time_s + EPS and frame / fps <= end + EPS
        }
        for turn in sample.turns
        if (end := turn.end_s) is not None
    ]
    answered = [sorted(inside.intersection(frames)) for inside in grid]
    num_outside = len(set(frames) - set().union(*grid))
    assert found["span_coverage"] == pytest.approx(sum(map(bool, answered)) / len(grid))
    assert found["span_redundancy"] == pytest.approx(sum(abs(1 - len(one)) for one in answered) / len(grid))
    delays = [((one or [max(inside)])[0] - min(inside)) / fps for one, inside in zip(answered, grid, strict=True)]
    assert found["span_first_reply_delay_s"] == pytest.approx(sum(delays) / len(grid))
    if frames:
        assert found["span_replies_inside"] == pytest.approx(1 - num_outside / len(frames))
    covered = sum(map(bool, answered))
    assert found["span_F1"] == pytest.approx(2 * covered / (covered + len(grid) + num_outside))
    # Quiet frames by their times, and not those of the spans.
    quiet = [
        frame
        for frame in range(sample.num_frames)
        if all(
            frame not in inside and not turn.time_s - 2 - EPS <= frame / fps <= (turn.end_s or 0) + 2 + EPS
            for turn, inside in zip(sample.turns, grid, strict=True)
        )
    ]
    alarms = found["false_alarms_per_quiet_hour"]
    expected = 3600 * len(set(quiet).intersection(frames)) * fps / len(quiet) if quiet else math.nan
    assert alarms == pytest.approx(expected, nan_ok=True)


def test_turns_without_spans_have_no_span_scores() -> None:
    assert count_spans(BOAT, [TimedReply(1.0, "right")], grade=grade) == SpanCounts()
    found = scores(replace(BOAT, fps=1.0), (1.0, "right"))
    assert all(math.isnan(found[name]) for name in ("PAUC_w0", "PAUC_silent", "span_coverage", "span_F1"))


def test_the_offline_judge_grades_by_bands_of_the_cosine() -> None:
    cosines = {"gold": 1.0, "near": 0.79, "over": 0.81, "half": 0.51, "far": 0.49}
    judge = CosineBands(lambda texts: np.array([[cosines[t], (1 - cosines[t] ** 2) ** 0.5] for t in texts]))
    replies = [Reply(question="", gold="gold", text=text) for text in cosines]
    assert judge(replies) == [2, 1, 2, 1, 0]
    assert judge([]) == []
