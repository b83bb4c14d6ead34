"""A long video has the moments of the short one, with waits between them."""

import torch

from benchmarks.engine.long_video import lengthen
from stepscope.engine.model.features.frame_encoder import FrameFeatures
from stepscope.eval.data.samples import Sample, Turn


def test_pictures_are_held_after_each_moment_and_its_turns_move_along() -> None:
    features = [FrameFeatures(index=index, time_s=index / 2, features=torch.tensor([[index]])) for index in range(10)]
    turns = (Turn(time_s=2.5, role="update", text="S1->start"), Turn(time_s=4.0, role="assistant", text="Good."))
    sample = Sample(
        video_id="v", video_path=None, fps=2.0, num_frames=10, goal="", steps=(), turns=turns, initial_state={}
    )
    longer, moved = lengthen(features, sample, wait_s=1.0)
    # the moments at frames 5 and 8 hold frames 7 and 9 (the last one) for 2 further frames each
    assert [int(frame.features[0, 0]) for frame in longer] == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 8, 9, 9, 9]
    assert [(frame.index, frame.time_s) for frame in longer] == [(index, index / 2) for index in range(14)]
    assert (moved.num_frames, [turn.time_s for turn in moved.turns]) == (14, [2.5, 5.0])
