"""A run of a split of two videos, one of which failed."""

from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import RunFolder, VideoRecord
from tests.support.reviews.reviewed import SAMPLES, UNRUN, output


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Return a run of the split ``split.json``, in which one of two videos failed."""
    write_samples(tmp_path / "split.json", SAMPLES, file_format="manifest")
    folder = RunFolder(tmp_path / "run")
    outputs = [replace(output(index), response=None) for index in range(12)]
    folder.save_video(VideoRecord(video_id="boat", source="s", num_frames=12), outputs)
    folder.save_video(VideoRecord(video_id=UNRUN.video_id, source="s", error="no such file"), [])
    folder.write_settings({"split": str(tmp_path / "split.json")})
    return folder
