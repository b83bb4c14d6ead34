from pathlib import Path

import numpy as np

from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.metrics.failures import worst_frame
from stepscope.eval.metrics.matched_video import FAILURE_KINDS, Failure, JudgedVideo
from stepscope.eval.metrics.score import VideoCounts, analyze_video, score_counts
from tests.support.data.records import make_output, make_sample

STEPS = (Step(id="S1", name="attach the wheel"), Step(id="S2", name="put on the roof"))
WORDS = ["Now the wheel.", "Now the roof.", "Careful!", "Well done.", "What?"]


def one_hot(texts: list[str]) -> np.ndarray:
    """Encode a text as itself: equal texts have cosine 1, others 0."""
    return np.array([[float(text == word) for word in WORDS] for text in texts])


def sample(*turns: tuple[float, str, str]) -> Sample:
    return make_sample(
        video_id="truck",
        video_path=Path("truck.mp4"),
        steps=STEPS,
        turns=tuple(Turn(time_s=time_s, role=role, text=text) for time_s, role, text in turns),  # type: ignore[arg-type]
    )


def outputs(writes: dict[int, tuple[tuple[str, ...], str | None]], num_frames: int = 20) -> list[FrameOutput]:
    """Make outputs that write at some frames; states follow from the updates."""
    state, made = {"S1": "not_started", "S2": "not_started"}, []
    for index in range(num_frames):
        updates, response = writes.get(index, ((), None))
        for text in updates:
            step_id, _, transition = text.partition("->")
            if step_id in state:
                state = {**state, step_id: "in_progress" if transition == "start" else "completed"}
        made.append(
            make_output(
                index,
                speak_prob=0.9 if response else 0.1,
                update_prob=0.9 if updates else 0.1,
                response=response,
                updates=updates,
                dst_state=state,
            )
        )
    return made


def kinds(failures: tuple[Failure, ...]) -> list[tuple[str, int]]:
    return [(failure.kind, failure.frame_index) for failure in failures]


def test_sentences_fail_in_three_ways() -> None:
    truth = sample(
        (1.0, "assistant", "Now the wheel."), (4.0, "assistant", "Now the roof."), (9.0, "assistant", "Careful!")
    )
    # frame 2 is right; 11 is 3 frames (1.5 s) after frame 8; 13 says nothing that is wanted; 18 was missed
    judged = analyze_video(
        truth, outputs({2: ((), "Now the wheel."), 11: ((), "Now the roof."), 13: ((), "What?")}), encode=one_hot
    ).judged
    assert kinds(judged.failures) == [("early or late", 11), ("redundant", 13), ("missed", 18)]
    late = judged.turns[1]
    assert (late.delay_s, late.reference, late.semantic_score) == (1.5, 1, 1.0)


def test_a_pair_that_says_something_else_is_a_wrong_text() -> None:
    def alike(texts: list[str]) -> np.ndarray:
        return one_hot(texts) + 0.4  # the cosine of different texts: (2*.4*1.4 + 3*.16) / (1.96 + 4*.16) = 0.62

    def barely(texts: list[str]) -> np.ndarray:
        return one_hot(texts) + 0.2  # (2*.2*1.2 + 3*.04) / (1.44 + 4*.04) = 0.375

    truth, said = sample((1.0, "assistant", "Now the wheel.")), outputs({2: ((), "What?")})
    assert analyze_video(truth, said, encode=alike).judged.failures == ()
    assert kinds(analyze_video(truth, said, encode=barely).judged.failures) == [("wrong text", 2)]


def test_updates_fail_in_three_ways_and_the_state_with_them() -> None:
    truth = sample((1.0, "update", "S1->start"), (4.0, "update", "S1->complete"), (8.0, "update", "S2->start"))
    judged = analyze_video(
        truth, outputs({2: (("S2->start",), None), 11: (("S1->complete",), None)}), encode=one_hot
    ).judged
    assert kinds(judged.failures) == [
        ("wrong update", 2),  # S2->start stands for S1->start
        ("wrong state", 2),
        ("early or late", 11),  # 1.5 s after 4.0 s
        ("wrong state", 11),
        ("missed update", 16),
    ]
    states = [failure for failure in judged.failures if failure.kind == "wrong state"]
    assert [(failure.frame_index, failure.end_frame, failure.step_ids) for failure in states] == [
        (2, 11, ("S1", "S2")),
        (11, 16, ("S2",)),
    ]


def test_a_system_without_states_misses_no_update() -> None:
    truth = sample((1.0, "update", "S1->start"), (4.0, "assistant", "Now the wheel."))
    judged = analyze_video(truth, outputs({}), encode=one_hot, has_states=False).judged
    assert kinds(judged.failures) == [("missed", 8)]


def test_what_lies_past_the_last_output_is_no_stop_but_counts_as_missed() -> None:
    truth = sample((1.0, "assistant", "Now the wheel."), (9.0, "assistant", "Careful!"), (9.0, "update", "S1->start"))
    cut = analyze_video(truth, outputs({}, num_frames=4), encode=one_hot)
    assert kinds(cut.judged.failures) == [("missed", 2)]
    scores = score_counts(cut.counts)
    assert scores["num_missed"] == scores["failures_missed"] == 2
    assert (scores["failures_missed_update"], scores["num_failures"]) == (1, 3)
    without = analyze_video(truth, outputs({}, num_frames=4), encode=one_hot, has_states=False)
    assert score_counts(without.counts)["num_failures"] == 2
    assert analyze_video(truth, [], encode=one_hot).judged.failures == ()


def failing(*frames: int) -> JudgedVideo:
    failures = (Failure(kind="redundant", frame_index=frame, end_frame=frame + 1) for frame in frames)
    return JudgedVideo(turns=(), failures=tuple(failures))


def test_the_worst_moment_begins_the_five_seconds_with_most_failures_of_all_runs() -> None:
    a, b = failing(2, 5, 20), failing(18, 24)
    assert worst_frame([a], fps=2) == 2  # 10 frames from 2 hold 2 and 5, from 20 only 20
    assert worst_frame([a, b], fps=2) == 18  # and from 18 they hold 18, 20 and 24
    assert worst_frame([failing(), b], fps=2) == 18
    assert worst_frame([failing(), failing()], fps=2) is None
    assert worst_frame([], fps=2) is None


def test_the_failures_that_one_steps_through_are_counted_by_kind() -> None:
    truth = sample(
        (1.0, "update", "S1->start"), (1.0, "assistant", "Now the wheel."), (4.0, "assistant", "Now the roof."),
        (9.0, "assistant", "Careful!"), (9.0, "update", "S1->complete"),
    )  # fmt: skip
    # the first response is right, the second says something else, the third is missed; S1 starts 1.5 s late, so its
    # state is wrong until then; its end is missed, so its state is wrong again from there to the end
    said = outputs({2: ((), "Now the wheel."), 5: (("S1->start",), None), 8: ((), "What?")})
    scored = analyze_video(truth, said, encode=one_hot)
    scores = score_counts(scored.counts + scored.counts)
    wanted = {"missed": 1, "wrong text": 1, "early or late": 1, "missed update": 1, "wrong state": 2}
    for kind in FAILURE_KINDS:
        assert scores[f"failures_{kind.replace(' ', '_')}"] == 2 * wanted.get(kind, 0)
    assert scores["num_failures"] == 2 * len(scored.judged.failures) == 12
    assert score_counts(VideoCounts())["num_failures"] == 0


def test_both_heads_count_alike_in_one_score_and_one_without_references_is_left_out() -> None:
    truth = sample((1.0, "assistant", "Now the wheel."), (4.0, "assistant", "Now the roof."))
    half = score_counts(analyze_video(truth, outputs({2: ((), "Now the wheel.")}), encode=one_hot).counts)
    assert half["decision_f1_1s"] == half["speaking_event_f1_1s"] == 2 / 3  # of updates there is nothing to score
    both = score_counts(analyze_video(truth, outputs({2: (("S1->start",), "Now the wheel.")}), encode=one_hot).counts)
    assert both["decision_f1_1s"] == 1 / 3  # (2/3 + 0) / 2: an update that nobody wanted
