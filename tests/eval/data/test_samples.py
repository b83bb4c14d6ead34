import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.engine.records import Step, UserTurn
from stepscope.eval.data.loading import read_samples
from stepscope.eval.data.samples import Turn

VIDEO: dict[str, Any] = {
    "video_id": "a",
    "video_path": "a.mp4",
    "fps": 2,
    "num_frames": 20,
    "goal": "build the boat",
    "steps": [{"id": "S2", "name": "hang the sail"}, {"id": "S1", "name": "set down the hull"}],
    "turns": [
        {"time_s": 3.0, "role": "assistant", "text": "Good.", "cause": "drop"},
        {"time_s": 3.0, "role": "user", "text": "next?"},
        {"time_s": 3.0, "role": "update", "text": "S2->complete"},
        {"time_s": 3.0, "role": "update", "text": "S1->start"},
        {"time_s": 1.0, "role": "assistant", "text": "Go."},
    ],
}


def write(folder: Path, *videos: object) -> Path:
    (folder / "split.json").write_text(json.dumps({"videos": videos}))
    return folder / "split.json"


def test_a_manifest_gives_samples_with_turns_in_order(tmp_path: Path) -> None:
    (sample,) = read_samples(write(tmp_path, VIDEO))
    assert sample.video_path == tmp_path / "a.mp4"
    assert sample.steps == (Step(id="S2", name="hang the sail"), Step(id="S1", name="set down the hull"))
    assert [(turn.time_s, turn.role, turn.text) for turn in sample.turns] == [
        (1.0, "assistant", "Go."),
        (3.0, "update", "S2->complete"),
        (3.0, "update", "S1->start"),
        (3.0, "user", "next?"),
        (3.0, "assistant", "Good."),
    ]
    assert sample.turns[-1] == Turn(time_s=3.0, role="assistant", text="Good.", cause="drop")
    assert sample.user_turns == (UserTurn(time_s=3.0, text="next?"),)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fps": 0}, "fps must be a number from 0.001 to 1000; got 0"),
        ({"num_frames": 0}, "num_frames must be at least 1; got 0"),
        ({"turns": [{"time_s": 1.0, "role": "update", "text": "S9->start"}]}, "of a step among S2, S1; got 'S9"),
        ({"turns": [{"time_s": 10.0, "role": "user", "text": "x"}]}, "lies outside the video of 10 s"),
        ({"steps": [{"id": "S1", "name": "a"}, {"id": "S1", "name": "b"}]}, "step ids must differ"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=rf"split\.json, video a: .*{reason}"):
        read_samples(write(tmp_path, {**VIDEO, **changes}))


@pytest.mark.parametrize("content", ["", "[" * 100_000])
def test_a_file_that_is_no_manifest_is_one_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(ValueError, match=r"x\.json"):
        read_samples(tmp_path / "x.json")
