import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepscope.engine.dialogue import apply_update, initial_state
from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.clips import Extent
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Turn
from tests.support.data.published import CLIP, changed, frames_of, write
from tests.support.data.shared_data import shared


def test_the_real_dst_clip_keeps_every_turn_at_its_time() -> None:
    path = shared("data/dst_clip.json")
    (sample,) = read_samples(path)
    stored = [turn for turn in json.loads(path.read_text())["conversation"] if turn["role"] != "system"]
    assert [step.id for step in sample.steps] == ["S1", "S2", "S3", "S4", "S5", "S6"]
    assert [len(frames_of(sample, role)) for role in ("update", "assistant", "user")] == [12, 8, 1]
    # 97.2 s: frame floor(194.4) = 194 of the video, 194 - 193 = 1 of the clip; 225.2 s: floor(450.4) - 193 = 257
    assert frames_of(sample, "update") == [1, 20, 20, 111, 111, 177, 177, 202, 202, 231, 231, 257]
    assert (sample.num_frames, sample.fps, sample.goal[:10]) == (451 - 193, 2.0, "Assembling")
    assert [turn.time_s for turn in sample.turns] == pytest.approx([turn["time"] - 96.5 for turn in stored])
    assert sample.turns[0] == Turn(time_s=0.7, role="update", text="S1->start")
    state = initial_state(sample.steps, sample.initial_state)
    assert set(state.values()) == {"not_started"}
    for update in (turn.text for turn in sample.turns if turn.role == "update"):
        change = apply_update(state, update)
        assert change.legality == "legal"
        state = dict(change.state)
    assert set(state.values()) == {"completed"}


def test_turns_of_a_dst_clip_are_ordered_and_relative_to_the_clip(tmp_path: Path) -> None:
    (sample,) = read_samples(write(tmp_path, CLIP))
    assert [(turn.time_s, turn.role, turn.text) for turn in sample.turns] == [
        (0.7, "update", "S1->start"),
        (2.5, "update", "S1->complete"),
        (2.5, "update", "S2->start"),
        (2.5, "user", "What now?"),
        (2.5, "assistant", "Now the sail."),
    ]
    assert (sample.video_id, sample.video_path, sample.num_frames) == ("v_clip3", None, 20)
    assert sample.steps == (Step(id="S2", name="hang the sail"), Step(id="S1", name="set down the hull"))


def test_several_updates_of_one_dst_turn_are_all_kept(tmp_path: Path) -> None:
    both = [{"id": "S1", "transition": "complete"}, {"id": "S2", "transition": "start"}]
    (sample,) = read_samples(write(tmp_path, changed(CLIP, "conversation", 3, "content", to=both)))
    assert [turn.text for turn in sample.turns[1:4]] == ["S1->complete", "S2->start", "S2->start"]


def late_clip(**fields: object) -> dict[str, Any]:
    """Return a clip of three steps whose dialogue begins in the middle of the task."""
    steps = [{"id": f"S{number}", "name": "x"} for number in (1, 2, 3)]
    turns = [
        {"role": "assistant", "content": "Go on.", "time": 103.0, "dst_state": {"S2": "completed", "S1": "completed"}},
        {"role": "DST_UPDATE", "content": [{"id": "S2", "transition": "complete"}], "time": 102.0},
    ]
    return {**CLIP, "dst": steps, "conversation": turns, **fields}


@pytest.mark.parametrize(
    ("clip", "states"),
    [
        # S1 is first named at 103 s; S2 is completed at 102 s, so it was in progress before; nothing tells S3
        (late_clip(), {"S1": "completed", "S2": "in_progress"}),
        (late_clip(initial_dst_state={"S3": "in_progress"}), {"S3": "in_progress"}),
        (late_clip(metadata={"initial_dst_state": {"S1": "completed"}}), {"S1": "completed"}),
        # in a DST_UPDATE turn dst_state is the state before the update: S2 completes what had not started
        (
            changed(late_clip(), "conversation", 1, "dst_state", to={"S2": "not_started"}),
            {"S1": "completed", "S2": "not_started"},
        ),
    ],
)
def test_the_state_at_the_start_is_given_or_the_earliest_that_is_told(
    tmp_path: Path, clip: dict[str, Any], states: dict[str, str]
) -> None:
    assert read_samples(write(tmp_path, clip))[0].initial_state == states


def test_the_frame_of_a_published_turn_is_the_one_that_rounding_does_not_move(tmp_path: Path) -> None:
    spoken = {"role": "assistant", "content": "Now the sail.", "time": 4.1}  # 4.1 * 30 is 122.999... in floating point
    clip = {**CLIP, "fps": 30, "start_frame_idx": 100, "end_frame_idx": 200, "conversation": [spoken]}
    (sample,) = read_samples(write(tmp_path, clip))
    assert [frame_at(turn.time_s, 30.0) for turn in sample.turns] == [123 - 100]


@example(fps=49.0, start_frame=0, frame=1, part=0.0)  # 1 / 49 * 49 = 0.9999999999999999
@example(fps=30.0, start_frame=0, frame=123, part=0.0)  # 4.1 * 30 = 122.99999999999999
@given(
    fps=st.floats(0.001, 1000),
    start_frame=st.integers(0, 2**31),
    frame=st.integers(0, 10**7),
    part=st.floats(0, 1, exclude_max=True),
)
def test_the_relative_time_of_a_turn_names_exactly_its_frame(
    fps: float, start_frame: int, frame: int, part: float
) -> None:
    extent = Extent(video_id="v", fps=fps, start_frame=start_frame, num_frames=1)
    time_s = (start_frame + frame + part) / fps
    assert frame_at(extent.clip_time_s(time_s, frame=start_frame + frame), fps) == frame
