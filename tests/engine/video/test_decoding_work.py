"""The pictures that a sampling decodes, counted from the index of a file."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from av.video.frame import VideoFrame

from engine.errors import VideoError
from engine.records import Excerpt
from engine.video import selective
from engine.video.decoding_work import measure_decoding
from engine.video.reader import read_frames
from tests.engine.video.test_selective import FPS, HEIGHT, SECONDS, WIDTH, Encoding, write

WITHOUT_B = {"g": "48", "bf": "0", "preset": "veryfast", "sc_threshold": "0"}
SAMPLINGS = [(2.0, None), (0.4, None), (50.0, None), (3.0, Excerpt(start_s=2.4, num_frames=5))]


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """144 pictures at 24 a second; pictures 0, 48 and 96 are key pictures."""
    encoding = Encoding(encoder="libx264", suffix=".mp4", options=WITHOUT_B)
    return write(tmp_path_factory.mktemp("indexed") / "video.mp4", encoding)


def test_a_group_counts_up_to_its_last_needed_picture(video: Path) -> None:
    # at 2 frames/s the last instant of each group of 2 s is 1.5 s after its key picture, at picture 36, the 37th
    work = measure_decoding(video, fps=2.0)
    assert work.pictures == 3 * 37
    assert work.megapixels == pytest.approx(3 * 37 * WIDTH * HEIGHT / 1e6)
    assert 0 < work.megabytes < video.stat().st_size / 1e6
    # at 0.4 frames/s: 0 s, 2.5 s (picture 12 of its group) and 5 s (picture 24 of its group)
    assert measure_decoding(video, fps=0.4).pictures == 1 + 13 + 25
    # instants 2.4 s to 3.73 s: up to picture 41 of the second group
    assert measure_decoding(video, fps=3.0, excerpt=Excerpt(start_s=2.4, num_frames=5)).pictures == 42


@pytest.mark.parametrize(("fps", "excerpt"), SAMPLINGS)
def test_the_decoder_decodes_the_counted_pictures(
    video: Path, monkeypatch: pytest.MonkeyPatch, fps: float, excerpt: Excerpt | None
) -> None:
    num_decoded = 0
    receive = selective._SampledDecoder._receive

    def count(self: selective._SampledDecoder, frames: list[VideoFrame]) -> None:
        nonlocal num_decoded
        num_decoded += len(frames)
        receive(self, frames)

    monkeypatch.setattr(selective._SampledDecoder, "_receive", count)
    assert list(read_frames(video, fps=fps, excerpt=excerpt))
    # x264 marks the last picture of the file, to which no other refers, as skippable
    assert measure_decoding(video, fps=fps, excerpt=excerpt).pictures == pytest.approx(num_decoded, abs=1)


@pytest.mark.parametrize(("fps", "excerpt"), SAMPLINGS)
def test_a_list_of_key_pictures_counts_like_an_index(
    video: Path, tmp_path: Path, fps: float, excerpt: Excerpt | None
) -> None:
    listed = write(tmp_path / "video.mkv", Encoding(encoder="libx264", suffix=".mkv", options=WITHOUT_B))
    exact, work = (measure_decoding(path, fps=fps, excerpt=excerpt) for path in (video, listed))
    assert work.pictures == pytest.approx(exact.pictures, abs=2)
    assert work.megapixels == work.pictures * WIDTH * HEIGHT / 1e6
    # a key picture is larger than the others, which share the bytes of a group evenly
    assert 0.4 * exact.megabytes < work.megabytes < 1.2 * exact.megabytes


def test_the_codec_is_named(video: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "video.mp4", Encoding(encoder="mpeg4", suffix=".mp4"))
    assert [measure_decoding(path, fps=2.0).codec for path in (video, other)] == ["h264", "mpeg4"]


def test_a_file_without_an_index_counts_with_all_pictures_of_the_read_range(tmp_path: Path) -> None:
    path = write(tmp_path / "video.ts", Encoding(encoder="libx264", suffix=".ts", options=WITHOUT_B))
    works = [measure_decoding(path, fps=2.0, excerpt=Excerpt(start_s=0.0, num_frames=n)) for n in (6, 12)]
    assert [work.pictures for work in works] == pytest.approx([FPS * SECONDS / 2, FPS * SECONDS], rel=0.02)
    assert works[1].megabytes == pytest.approx(path.stat().st_size / 1e6, rel=0.02)
    assert all(np.isfinite([a.megabytes, b.megabytes]).all() for a, b in pairwise(works))


def test_a_file_that_is_no_video_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="no such file"):
        measure_decoding(tmp_path / "none.mp4", fps=2.0)
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(VideoError, match="cannot be opened as video"):
        measure_decoding(tmp_path / "text.mp4", fps=2.0)
