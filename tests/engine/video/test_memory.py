"""Memory: large pictures are streamed in a bounded amount, however long the video is."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.streams.videos import write_plain

MEASURE = """
import resource, sys
from stepscope.engine.loading import load_model
from stepscope.engine.video.reader import read_frames
from stepscope.engine.model.features.frame_encoder import encode
peak_mb = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
checkpoint = load_model(sys.argv[1], device="cpu")
before_mb = peak_mb()
at = [peak_mb() for _ in encode(checkpoint, read_frames(sys.argv[2], fps=2.0))]
print(len(at), at[-1] - before_mb, at[-1] - at[len(at) // 2])
"""


@pytest.mark.slow
def test_a_4k_video_streams_in_flat_memory(tiny_folder: Path, tmp_path: Path) -> None:
    video = write_plain(tmp_path / "large.mp4", width=3840, height=2160, num_pictures=20)
    command = [sys.executable, "-c", MEASURE, str(tiny_folder), str(video)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    num_frames, used_mb, growth_mb = map(float, printed.split())
    assert num_frames == 20
    assert used_mb < 400  # it took 1,975 MB when whole batches of full pictures were held
    assert growth_mb < 40, "the second half of the video takes no more than the first"
