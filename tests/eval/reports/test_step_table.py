"""Scores of steps, of classes of steps, and of causes."""

import math
from dataclasses import replace

import pytest

from stepscope.eval.metrics.segments import count_steps
from stepscope.eval.reports.step_table import STEP_COLUMNS, tabulate_steps
from tests.eval.metrics.test_segments import CHAIN, PREDICTED, REFERENCE, run_of, sample_of


def test_a_class_pools_the_steps_of_equal_names_and_a_cause_those_that_it_made_hard() -> None:
    first = replace(sample_of(REFERENCE), video_id="first", after=CHAIN)
    causes = {"S2->complete": "wrong position", "S3->complete": "wrong position"}
    turns = tuple(replace(turn, cause=causes.get(turn.text)) for turn in first.turns)
    renamed = tuple(replace(step, name=step.name.upper()) for step in first.steps)
    second = replace(first, video_id="second", turns=turns, steps=renamed, after={})
    steps = [*count_steps(run_of(REFERENCE, first), first), *count_steps(run_of(PREDICTED, second), second)]
    rows = tabulate_steps(steps)
    assert all(tuple(row) == STEP_COLUMNS for row in rows)
    assert [row["video_id"] for row in rows] == ["first"] * 3 + ["second"] * 3 + [""] * 4
    found = {(row["level"], row["video_id"], row["name"]): row for row in rows}
    # S1 of the second video: [2, 4) against [1, 4), IoU 2/3; begun 1 s late, completed in time
    late = found["step", "second", "DO 1"]
    assert [late["mof_steps"], late["segment_f1_50"], late["start_recall_0s"], late["completion_f1"]] == [
        2 / 3,
        1,
        0,
        1,
    ]
    both = found["class", "", "do 1"]
    assert (both["num_steps"], both["num_with_cause"]) == (2, 0)
    assert [both["mof_steps"], both["start_recall_0s"]] == [5 / 6, 1 / 2]
    # S2: [4, 7) against [4, 8), completed too early; with the right one of the first video 2 / (2 + 1)
    assert found["class", "", "do 2"]["completion_f1"] == pytest.approx(2 / 3)
    assert found["class", "", "do 2"]["precondition_violations"] == 0  # of the first video, which has a graph
    # the two steps with a cause: 3 of 4 and 1 of 2 frames; completed too early, and never
    hard = found["cause", "", "wrong position"]
    assert [hard["num_steps"], hard["num_with_cause"], hard["completion_f1"]] == [2, 2, 0]
    assert hard["mof_steps"] == pytest.approx(4 / 6)
    assert math.isnan(float(hard["omission_iou"]))
