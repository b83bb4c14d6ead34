"""Scores from segments, starts and completions of steps."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.segments import (
    Segment,
    SegmentCounts,
    count_overlaps,
    count_segments,
    list_segments,
    measure_disorder,
    measure_edits,
    summarize_segments,
)
from tests.support.data.records import make_output, make_sample

Timed = Iterable[tuple[int, str]]
CHAIN = {"S2": ("S1",), "S3": ("S2",)}
FIRST = ((1, "S1->start"), (4, "S1->complete"), (4, "S2->start"), (8, "S2->complete"))
REFERENCE = (*FIRST, (9, "S3->start"), (11, "S3->complete"))
PREDICTED = ((2, "S1->start"), (4, "S1->complete"), (4, "S2->start"), (7, "S2->complete"), (10, "S3->start"))


def sample_of(updates: Timed, *, num_steps: int = 3, num_frames: int = 12, fps: float = 1.0) -> Sample:
    return make_sample(
        fps=fps,
        num_frames=num_frames,
        steps=tuple(Step(id=f"S{number}", name=f"do {number}") for number in range(1, num_steps + 1)),
        turns=tuple(Turn(time_s=frame / fps, role="update", text=text) for frame, text in updates),
    )


def run_of(updates: Timed, sample: Sample, *, num_frames: int | None = None) -> list[FrameOutput]:
    state: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)
    outputs, timed = [], list(updates)
    for frame in range(sample.num_frames if num_frames is None else num_frames):
        texts = tuple(text for at, text in timed if at == frame)
        for text in texts:
            state = apply_update(state, text).state
        outputs.append(make_output(frame, fps=sample.fps, updates=texts, dst_state=state, legality=None))
    return outputs


def score(predicted: Timed, sample: Sample, *, num_frames: int | None = None) -> dict[str, float]:
    return summarize_segments(count_segments(run_of(predicted, sample, num_frames=num_frames), sample))


def test_the_worked_case_has_its_published_values() -> None:
    # frames      0  1  2  3  4  5  6  7  8  9 10 11
    # reference   .  1  1  1  2  2  2  2  .  3  3  .
    # predicted   .  .  1  1  2  2  2  .  .  .  3  3
    found = score(PREDICTED, sample_of(REFERENCE))
    assert found["mof"] == pytest.approx(8 / 12)
    assert found["mof_steps"] == pytest.approx(6 / 9)
    assert found["edit"] == 1
    # IoU 2/3 of S1, 3/4 of S2, 1/3 of S3
    assert [found[f"segment_f1_{percent}"] for percent in (10, 25, 50)] == pytest.approx([1, 1, 2 / 3])
    assert [found["start_recall_0s"], found["start_recall_1s"]] == pytest.approx([1 / 3, 1])
    assert found["completion_order"] == pytest.approx(2 / 3)  # 1, 2, 3 against 1, 2: a deletion
    assert found["completion_f1"] == 0.5  # S1 right, S2 early, S3 missed: 2 / (2 + 1 + 1)
    assert found["completion_delay_s"] == 0
    # nothing is omitted on either side, and there is no graph
    names = ("omission_iou", "omission_recall", "precondition_violations", "precondition_violations_reference")
    assert all(math.isnan(found[name]) for name in names)


def test_the_background_counts_as_an_action_in_a_variant_only() -> None:
    # reference . 1 2 . 3 . against . 1 2 . 3: one insertion of 6
    found = score(PREDICTED, sample_of(REFERENCE))
    assert found["edit_bg"] == pytest.approx(5 / 6)
    # IoU of the backgrounds: [0, 2) and [0, 1) 1/2, [7, 10) and [8, 9) 1/3, and [11, 12) has none
    assert [found[f"segment_f1_{percent}_bg"] for percent in (10, 25, 50)] == pytest.approx([10 / 11, 10 / 11, 6 / 11])


def test_omitted_steps_are_those_that_a_side_never_starts() -> None:
    sample = sample_of(((1, "S1->start"), (2, "S2->start"), (3, "S4->start")), num_steps=4)
    found = score(((1, "S1->start"), (2, "S2->start")), sample)
    assert (found["omission_iou"], found["omission_recall"]) == (0.5, 1)


def test_a_start_violates_the_graph_unless_its_predecessors_are_completed() -> None:
    sample = replace(sample_of(REFERENCE), after=CHAIN)
    counts = count_segments(run_of(((1, "S1->start"), (5, "S1->complete"), (9, "S3->start")), sample), sample)
    assert (counts.num_graph_starts, counts.num_violations) == (2, 1)  # S1 0, S3 1
    found = summarize_segments(counts)
    assert (found["precondition_violations"], found["precondition_violations_reference"]) == (0.5, 0)
    under_way = ((1, "S1->start"), (2, "S2->start"), (3, "S1->complete"))
    assert score(under_way, sample)["precondition_violations"] == 0.5  # S1 is not completed when S2 starts


def test_of_two_steps_in_progress_the_later_start_labels_the_frame() -> None:
    around = ((1, "S1->start"), (4, "S2->start"), (5, "S2->complete"), (6, "S1->complete"))
    sample = sample_of(around, num_steps=2, num_frames=8)
    # . 1 1 1 2 1 . . against the same without S2: its frame is wrong, and the two stretches of S1 are one
    found = score(((1, "S1->start"), (6, "S1->complete")), sample)
    assert (found["mof"], found["mof_steps"]) == (7 / 8, 4 / 5)
    assert found["edit"] == pytest.approx(1 / 3)
    at_once = sample_of(((2, "S2->start"), (2, "S1->start")), num_steps=2, num_frames=4)
    assert score(((2, "S1->start"), (2, "S2->start")), at_once)["mof"] == 0.5


def test_frames_without_an_output_are_wrong_and_of_no_segment() -> None:
    found = score(PREDICTED, sample_of(REFERENCE), num_frames=6)
    assert found["mof"] == pytest.approx(5 / 12)  # 0, and 2 to 5
    assert found["edit_bg"] == pytest.approx(3 / 6)


def test_scores_without_their_data_are_undefined() -> None:
    nothing = sample_of((), num_steps=0)
    assert all(math.isnan(value) for value in score((), nothing).values())
    silent = score((), sample_of(REFERENCE))
    assert (silent["edit"], silent["completion_order"], silent["completion_f1"], silent["mof_steps"]) == (0, 0, 0, 0)
    assert math.isnan(silent["completion_delay_s"])


def test_the_scores_of_a_split_add_frames_and_average_orders() -> None:
    sample = sample_of(REFERENCE)
    rows = [count_segments(run_of(updates, sample), sample) for updates in (REFERENCE, PREDICTED)]
    found = summarize_segments(Pool(rows, SegmentCounts).total())
    assert found["mof"] == pytest.approx(20 / 24)
    assert found["completion_order"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["segment_f1_50"] == pytest.approx(10 / 12)
    assert found["completion_f1"] == pytest.approx(8 / 10)


ORDERS = st.permutations(["S1", "S2", "S3", "S4"]).flatmap(lambda ids: st.integers(0, 4).map(lambda n: ids[:n]))


@st.composite
def updates_of(draw: st.DrawFn) -> list[tuple[int, str]]:
    found = []
    for step in draw(ORDERS):
        start, end = sorted(draw(st.tuples(st.integers(0, 11), st.integers(0, 11))))
        found += [(start, f"{step}->start")] + ([(end, f"{step}->complete")] if draw(st.booleans()) else [])
    return sorted(found, key=lambda one: one[0])


@given(reference=updates_of(), predicted=updates_of())
def test_scores_are_in_range_and_a_perfect_prediction_has_the_best(
    reference: list[tuple[int, str]], predicted: list[tuple[int, str]]
) -> None:
    sample = replace(sample_of(reference, num_steps=4), after=CHAIN)
    found = score(predicted, sample)
    assert all(math.isnan(value) or 0 <= value <= 1 for name, value in found.items() if name != "completion_delay_s")
    perfect = score(reference, sample)
    best = {name: value for name, value in perfect.items() if "violations" not in name and "delay" not in name}
    assert all(math.isnan(value) or value == 1 for value in best.values())
    violations = perfect["precondition_violations"], perfect["precondition_violations_reference"]
    assert violations[0] == violations[1] or all(map(math.isnan, violations))


TEXTS = st.text("abc", max_size=5)


@given(text=TEXTS, others=st.lists(TEXTS, max_size=3))
def test_the_edit_distance_is_that_of_the_recursion(text: str, others: list[str]) -> None:
    @cache
    def distance(one: str, other: str) -> int:
        if not (one and other):
            return len(one) + len(other)
        replaced = distance(one[1:], other[1:]) + (one[0] != other[0])
        return min(replaced, distance(one[1:], other) + 1, distance(one, other[1:]) + 1)

    assert measure_edits(text, others).tolist() == [distance(text, other) for other in others]


def neighbours(text: str) -> Iterable[str]:
    """All texts that one operation of cost 1 gives; a substitution is a deletion and an insertion."""
    for place in range(len(text) + 1):
        yield from (text[:place] + letter + text[place:] for letter in "abc")
        yield text[:place] + text[place + 1 :]
        yield text[:place] + text[place : place + 2][::-1] + text[place + 2 :]


@given(one=st.text("abc", max_size=3), other=st.text("abc", max_size=3))
def test_the_disorder_is_the_fewest_operations(one: str, other: str) -> None:
    reached, steps = {one}, 0
    while other not in reached:
        reached |= {near for text in reached for near in neighbours(text) if len(near) <= 4}
        steps += 1
    assert measure_disorder(one, other) == steps


def f1_by_ms_tcn(gen: Sequence[str], ref: Sequence[str], overlap: float) -> int:
    """Right segments by the published loop: arrays of all references, and the first of the highest IoU."""
    ours, theirs = (list(list_segments(labels, with_background=False)) for labels in (gen, ref))
    hits, right = [0] * len(theirs), 0
    for one in ours:
        ious = [
            (min(one.end, other.end) - max(one.start, other.start))
            / (max(one.end, other.end) - min(one.start, other.start))
            * (one.label == other.label)
            for other in theirs
        ]
        if ious and max(ious) >= overlap and not hits[ious.index(max(ious))]:
            hits[ious.index(max(ious))] = 1
            right += 1
    return right


LABELS = st.lists(st.sampled_from(["", "a", "b"]), min_size=14, max_size=14)


@given(gen=LABELS, ref=LABELS, overlap=st.sampled_from([0.1, 0.25, 0.5]))
def test_right_segments_are_those_of_the_published_loop(gen: list[str], ref: list[str], overlap: float) -> None:
    ours, theirs = (list(list_segments(labels, with_background=False)) for labels in (gen, ref))
    assert count_overlaps(ours, theirs, least_iou=overlap) == f1_by_ms_tcn(gen, ref, overlap)


def test_the_second_prediction_of_a_segment_is_wrong() -> None:
    ours = [Segment("a", 0, 4), Segment("a", 5, 9)]
    assert count_overlaps(ours, [Segment("a", 0, 9)], least_iou=0.1) == 1
