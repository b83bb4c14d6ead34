"""Replies after the end of a video: up to a poll they count at its last frame."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.eval.runs.imports.test_written_forms import KETTLE, messages, read


@pytest.mark.parametrize(
    ("times", "frames"),
    [([4, 11], [8, 20]), ([1, 4, 10.5], [2, 8, 20]), ([10.4], [20]), ([2, 10, 12], [4, 20, 20]), ([12], [20])],
)
def test_a_reply_after_the_end_by_less_than_a_poll_is_at_the_last_frame(
    tmp_path: Path, times: list[float], frames: list[int]
) -> None:
    replies = [{"role": "assistant", "content": f"{number}", "time": time} for number, time in enumerate(times)]
    user = {"role": "user", "content": "What happens?", "time": 1}
    content = {"question_id": "kettle", "model_response_list": [user, *replies], "drop_ratio_list": []}
    outputs = read(tmp_path, content, replace(KETTLE, fps=2.0, num_frames=21))
    assert len(outputs) == 21
    assert sorted(messages(outputs)) == sorted(set(frames))


def test_a_reply_that_is_far_after_the_end_and_one_that_is_silent_are_no_replies_of_the_video(tmp_path: Path) -> None:
    late = [{"role": "assistant", "content": "It boils.", "time": time} for time in (1, 2, 12)]
    with pytest.raises(
        ValueError, match=r"\[2\]\.time is at 12 s, but the video ends by 10 s; give the results of this"
    ):
        read(tmp_path, {"question_id": "kettle", "model_response_list": late})
    silent = [{"role": "assistant", "content": text, "time": 3} for text in ("NO REPLY", "No reply.", "", "\u200b")]
    assert messages(read(tmp_path, {"question_id": "kettle", "model_response_list": silent})) == {}
