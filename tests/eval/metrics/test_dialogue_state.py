import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.engine.dialogue import STATES, apply_update, initial_state
from stepscope.engine.records import FrameOutput, Step, UpdateLegality
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.metrics.dialogue_state import DstCounts, boundary_delays_s, count_dst, summarize_dst
from tests.support.data.records import make_output, make_sample
from tests.support.data.shared_data import shared

FPS = 2.0


FIVE = [(0, "S1->start"), (4, "S1->complete"), (8, "S2->start"), (12, "S2->complete"), (16, "S3->start")]


Timed = Iterable[tuple[int, str]]


def sample_of(
    updates: Timed, *, steps: int = 3, num_frames: int = 20, begun: Mapping[str, str] | None = None
) -> Sample:
    return make_sample(
        fps=FPS,
        num_frames=num_frames,
        goal="build the boat",
        steps=tuple(Step(id=f"S{number}", name="do it") for number in range(1, steps + 1)),
        turns=tuple(Turn(time_s=frame / FPS, role="update", text=text) for frame, text in updates),
        initial_state=begun or {},
    )


def run_of(updates: Timed, sample: Sample, *, illegal: str = "apply") -> list[FrameOutput]:
    """What a stream that writes these updates puts out."""
    state: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)
    outputs, timed = [], list(updates)
    for frame in range(sample.num_frames):
        texts = tuple(text for at, text in timed if at == frame)
        legality = list[UpdateLegality]()
        for text in texts:
            change = apply_update(state, text, illegal="refuse" if illegal == "refuse" else "apply")
            state = change.state
            legality.append(change.legality)
        outputs.append(
            make_output(
                frame,
                fps=FPS,
                speak_prob=0.0,
                update_prob=float(bool(texts)),
                updates=texts,
                dst_state=state,
                latency_ms=0.0,
                legality=tuple(legality),
            )
        )
    return outputs


def score(gen: Timed, ref: Timed, *, num_frames: int = 20) -> dict[str, float]:
    sample = sample_of(ref, num_frames=num_frames)
    scores = summarize_dst(count_dst(run_of(gen, sample), sample))
    return {name: value for name, value in scores.items() if not name.startswith("dst_num_")}


def test_one_right_of_five_scores_a_fifth_where_the_published_variant_says_one() -> None:
    scores = score(FIVE[:1], FIVE)
    assert scores["dst_exact_match"] == scores["dst_recall"] == pytest.approx(1 / 5)
    assert (scores["dst_precision"], scores["dst_f1"]) == pytest.approx((1, 2 * 1 / (1 + 5)))
    assert scores["legacy_dst_exact_match"] == 1
    assert scores["dst_clip_exact"] == 0


def test_one_spurious_first_update_costs_precision_where_the_published_variant_says_zero() -> None:
    ref = [(8, "S1->start"), (12, "S2->complete"), (16, "S3->start")]
    scores = score([(0, "S2->start"), *ref], ref)  # by position: S2/S1, S1/S2, S2/S3: nothing right
    assert scores["legacy_dst_exact_match"] == scores["legacy_dst_step_accuracy"] == 0
    assert scores["legacy_dst_transition_accuracy"] == pytest.approx(1 / 3)  # start/start, start/complete, ...
    assert (scores["dst_exact_match"], scores["dst_precision"]) == pytest.approx((1, 3 / 4))
    assert scores["dst_clip_exact"] == 0


def test_right_steps_and_right_transitions_are_counted_over_all_references() -> None:
    gen = [(1, "S1->start"), (4, "S1->start"), (8, "S3->start"), (12, "S2->complete")]
    scores = score(gen, FIVE)
    # S1->start exact 0.5 s late; S1->start for S1->complete: step; S3->start for S2->start: transition; S2->complete
    # exact; S3->start at 16 was never said
    assert scores["dst_step_accuracy"] == pytest.approx(3 / 5)
    assert scores["dst_transition_accuracy"] == pytest.approx(3 / 5)
    assert scores["dst_exact_match"] == pytest.approx(2 / 5)
    assert scores["dst_precision"] == pytest.approx(2 / 4)
    assert scores["dst_f1"] == pytest.approx(2 * 2 / (4 + 5))
    assert (scores["dst_delay_s"], scores["dst_abs_delay_s"]) == pytest.approx((0.25, 0.25))  # (0.5 + 0) / 2


def test_delay_is_signed_and_its_size_apart() -> None:
    scores = score([(2, "S1->start"), (11, "S2->start")], [(4, "S1->start"), (8, "S2->start")])
    assert (scores["dst_delay_s"], scores["dst_abs_delay_s"]) == pytest.approx((0.25, 1.25))  # (-1 + 1.5), (1 + 1.5)


def test_an_update_outside_the_window_is_both_missed_and_spurious() -> None:
    assert score([(5, "S1->start")], [(10, "S1->start")])["dst_f1"] == 1  # 2.5 s at 2 fps = 5 frames
    assert score([(4, "S1->start")], [(10, "S1->start")])["dst_f1"] == 0
    assert score([(16, "S1->start")], [(10, "S1->start")])["dst_f1"] == 0


def test_malformed_and_illegal_updates_are_counted_by_replay() -> None:
    gen = [(0, "S1->complete"), (1, "S1->start"), (2, "S9->start"), (3, "S1->begin"), (4, "S2->start")]
    sample = sample_of([])
    applied = count_dst(run_of(gen, sample), sample)
    # complete skips, start then goes backwards, S9 is unknown
    assert (applied.num_illegal, applied.num_malformed) == (3, 1)
    refused = count_dst(run_of(gen, sample, illegal="refuse"), sample)
    # the skip was refused, so the start is legal
    assert (refused.num_illegal, refused.num_malformed) == (2, 1)
    scores = summarize_dst(applied + refused)
    assert (scores["dst_illegal"], scores["dst_malformed"], scores["dst_precision"]) == (5, 2, 0)


def test_the_published_parser_takes_any_word_after_the_arrow() -> None:
    scores = score([(0, " S1 -> begin"), (4, "S1")], FIVE)
    assert (scores["legacy_dst_step_accuracy"], scores["legacy_dst_exact_match"]) == (1 / 2, 0)
    assert (scores["dst_step_accuracy"], scores["dst_malformed"]) == (0, 2)


def test_states_are_scored_frame_by_frame() -> None:
    # 10 frames, 3 steps; reference S1 starts at 2 and completes at 6, S2 starts at 6; predicted 3, 5 and 8:
    # S1 wrong at 2 and 5, S2 wrong at 6 and 7: whole state right on 6 of 10 frames, 26 of 30 cells
    ref = [(2, "S1->start"), (6, "S1->complete"), (6, "S2->start")]
    gen = [(3, "S1->start"), (5, "S1->complete"), (8, "S2->start")]
    scores = score(gen, ref, num_frames=10)
    assert scores["dst_joint_goal_accuracy"] == pytest.approx(6 / 10)
    assert scores["dst_timeline_score"] == pytest.approx((8 / 10 + 8 / 10 + 1) / 3)
    assert scores["dst_start_delay_s"] == pytest.approx((0.5 + 1) / 2)
    assert scores["dst_complete_delay_s"] == pytest.approx(-0.5)
    assert scores["dst_clip_exact"] == 1  # each update is right, if not on time


def test_a_step_boundary_needs_both_sides_and_a_state_that_was_not_there_before() -> None:
    sample = sample_of([(4, "S1->complete"), (6, "S2->start")], begun={"S1": "in_progress"})
    # S2 is completed without a start: it is past its start from frame 9; S3 is started only by the prediction
    outputs = run_of([(3, "S1->complete"), (9, "S2->complete"), (10, "S3->start")], sample)
    assert boundary_delays_s(outputs, sample, reached=STATES[1:]) == {"S2": 1.5}
    assert boundary_delays_s(outputs, sample, reached=STATES[2:]) == {"S1": -0.5}


def test_a_frame_without_an_output_has_a_wrong_state_and_one_past_the_end_none() -> None:
    sample = sample_of(FIVE)
    outputs = run_of(FIVE, replace(sample, num_frames=22))
    assert summarize_dst(count_dst(outputs, sample))["dst_joint_goal_accuracy"] == 1
    assert summarize_dst(count_dst(outputs[:15], sample))["dst_joint_goal_accuracy"] == pytest.approx(15 / 20)


def test_a_run_of_other_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="video a, frame 0: the run has states of S1, the sample has the steps S1, S2"):
        count_dst(run_of([], sample_of([], steps=1)), sample_of([], steps=2))


def test_without_data_all_scores_are_nan() -> None:
    empty = summarize_dst(DstCounts())
    assert all(math.isnan(value) for value in empty.values())
    no_steps = sample_of([], steps=0)
    assert summarize_dst(count_dst(run_of([], no_steps), no_steps)) == pytest.approx(empty, nan_ok=True)
    silent = score([], [])
    assert silent["dst_joint_goal_accuracy"] == 1  # the state is known, and right, without any update
    assert math.isnan(silent["dst_clip_exact"])


def test_two_updates_at_one_time_of_the_real_clip_are_both_scored() -> None:
    clip = json.loads(shared("data/dst_clip.json").read_text())
    clip = clip[0] if isinstance(clip, list) else clip
    turns = [turn for turn in clip["conversation"] if turn["role"] == "DST_UPDATE"]
    ref = [
        (math.floor(turn["time"] * clip["fps"]) - clip["start_frame_idx"], f"{item['id']}->{item['transition']}")
        for turn in turns
        for item in turn["content"]
    ]
    sample = sample_of(ref, steps=6, num_frames=1 + max(frame for frame, _ in ref))
    assert len(ref) == 12
    whole = summarize_dst(count_dst(run_of(ref, sample), sample))
    assert (whole["dst_f1"], whole["dst_joint_goal_accuracy"], whole["dst_clip_exact"]) == (1, 1, 1)
    one_a_frame = list({frame: (frame, text) for frame, text in ref}.values())
    assert summarize_dst(count_dst(run_of(one_a_frame, sample), sample))["dst_recall"] == pytest.approx(7 / 12)


updates = st.lists(
    st.tuples(
        st.integers(0, 19),
        st.sampled_from(["S1->start", "S1->complete", "S2->start", "S2->complete", "S3->start", "S9->start", "S1->"]),
    ),
    max_size=8,
)


@given(ref=updates)
def test_the_reference_itself_is_always_right(ref: Sequence[tuple[int, str]]) -> None:
    truth = sorted((frame, text) for frame, text in ref if text != "S1->")
    scores = score(truth, truth)
    assert scores["dst_joint_goal_accuracy"] == scores["dst_timeline_score"] == 1
    assert math.isnan(scores["dst_clip_exact"]) if not truth else scores["dst_clip_exact"] == 1
