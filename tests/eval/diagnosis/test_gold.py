"""The gold pass: each reference turn is judged with the reference as its history."""

from stepscope.engine.control.intervention import ForcedTurn
from stepscope.engine.records import FrameOutput, Step
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.diagnosis.gold import judge_probes, make_gold_history
from tests.support.streams.fakes import count_letters

SAMPLE = Sample(
    video_id="video",
    fps=2.0,
    num_frames=8,
    steps=(Step(id="S1", name="attach the wheel"), Step(id="S2", name="put on the roof")),
    turns=(
        Turn(time_s=1.0, role="update", text="S1->complete"),
        Turn(time_s=1.0, role="update", text="S2->start"),
        Turn(time_s=1.0, role="assistant", text="Good."),
        Turn(time_s=2.0, role="user", text="What now?"),
        Turn(time_s=2.5, role="assistant", text="Put on the roof."),
        Turn(time_s=9.0, role="assistant", text="Well done."),
    ),
)


def output(frame: int, response: str | None = None, updates: tuple[str, ...] = ()) -> FrameOutput:
    return FrameOutput(
        frame_index=frame,
        time_s=frame / 2,
        speak_prob=0.0,
        update_prob=0.0,
        response=response,
        updates=updates,
        dst_state={},
        cache_tokens=0,
        refreshed=False,
        latency_ms=0.0,
    )


def outputs(*written: FrameOutput) -> list[FrameOutput]:
    by_frame = {one.frame_index: one for one in written}
    return [by_frame.get(frame, output(frame)) for frame in range(8)]


def test_a_turn_is_right_at_its_own_frame_alone() -> None:
    found = judge_probes(
        SAMPLE, outputs(output(2, updates=("S1->complete", "S2->start")), output(3, "Good.")), count_letters
    )
    assert found.right == (0, 1)
    assert found.wrong == (2, 4), "those after the last output are left out, and a user's is no turn of the model"
    assert found.false_triggers == (3,)


def test_a_message_is_right_if_it_is_similar_and_an_update_if_it_is_equal() -> None:
    found = judge_probes(
        SAMPLE, outputs(output(2, "Good!", ("S1->complete", "S1->start")), output(5, "0123456789")), count_letters
    )
    assert found.right == (0, 2)
    assert found.wrong == (1, 4)
    assert found.false_triggers == (), "the reference writes at these frames, too"


def test_more_updates_than_the_reference_are_a_false_trigger() -> None:
    written = ("S1->complete", "S2->start", "S2->complete")
    assert judge_probes(SAMPLE, outputs(output(2, updates=written)), count_letters).false_triggers == (2,)


def test_updates_of_a_model_without_updates_are_not_judged() -> None:
    found = judge_probes(SAMPLE, outputs(output(3, updates=("S1->start",))), count_letters, has_updates=False)
    assert (found.right, found.wrong, found.false_triggers) == ((), (2, 4), ())


def test_the_history_holds_the_reference_up_to_the_end_of_the_video() -> None:
    history = make_gold_history(SAMPLE, num_frames=8)
    assert history.turns == {
        2: ForcedTurn(updates=("S1->complete", "S2->start"), response="Good."),
        5: ForcedTurn(response="Put on the roof."),
    }
    assert history.until == 8
    assert history.is_probed
