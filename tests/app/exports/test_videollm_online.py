"""The form of VideoLLM-online, written and read again."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.exports.folder import gather_videos
from stepscope.app.exports.formats import write_export
from stepscope.app.reviews.review import fold_actions
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import Turn
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import RunFolder, VideoRecord
from stepscope.eval.runs.imports.import_results import import_into
from tests.support.reviews.reviewed import SAMPLE, output

ANSWERS = {3: "Attach the cabin.", 7: "Good: 1 < 2."}
COSTS_MS = {0: 20.0, 3: 480.0, 5: math.nan}


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    sample = replace(SAMPLE, turns=(Turn(time_s=1.5, role="user", text="What is next?"),))
    write_samples(tmp_path / "split.json", [sample], file_format="manifest")
    (sample,) = read_split(tmp_path / "split.json").samples
    run = RunFolder(tmp_path / "run")
    outputs = [
        replace(
            output(index), response=ANSWERS.get(index), updates=(), legality=(), latency_ms=COSTS_MS.get(index, 0.0)
        )
        for index in range(sample.num_frames)
    ]
    run.save_video(VideoRecord(video_id=sample.video_id, source="s", num_frames=len(outputs)), outputs)
    run.write_settings({"split": str(tmp_path / "split.json")})
    videos = gather_videos([sample], review=fold_actions([]), run=run)
    write_export(tmp_path / "out", videos, file_format="videollm-online")
    (path,) = (tmp_path / "out").iterdir()
    return path


def test_each_frame_has_its_cost_and_a_question_is_before_its_answer(exported: Path) -> None:
    content = json.loads(exported.read_text("utf-8"))
    assert content["frame_fps"] == 2.0
    steps = content["conversation"]
    assert steps[0] == {"time": 0.0, "fps": 50.0, "cost": 0.02}
    assert steps[1] == {"time": 0.5, "fps": 100.0, "cost": 0.0}
    assert steps[3:5] == [  # 4 frames in 0.02 + 0.48 s
        {"role": role, "content": f"(Video Time = 1.5s) {words}", "time": 1.5, "fps": 8.0, "cost": 0.48}
        for role, words in (("user", "User: What is next?"), ("assistant", "Assistant: Attach the cabin."))
    ]
    assert steps[6] == {"time": 2.5, "fps": 12.0, "cost": 0.0}, "an unknown cost"


def test_the_written_file_is_imported_with_the_same_texts(exported: Path, tmp_path: Path) -> None:
    split = read_split(tmp_path / "split.json")
    assert import_into(tmp_path / "again", [exported], split, {}) == {}
    outputs = RunFolder(tmp_path / "again").outputs(split.samples[0])
    assert {one.frame_index: one.response for one in outputs if one.response} == ANSWERS
    assert outputs[3].latency_ms == 480.0
    assert len(outputs) == split.samples[0].num_frames
