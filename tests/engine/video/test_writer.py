import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest

from stepscope.engine.errors import VideoError
from stepscope.engine.video.reader import VideoWarning, probe, read_frames
from stepscope.engine.video.writer import convert_for_browser, write_h264
from tests.support.paths import REAL_VIDEOS
from tests.support.streams import videos
from tests.support.streams.odd import add_sound, write_recording

REAL = REAL_VIDEOS


grey = partial(videos.grey, height=48, width=64)
write_mpeg4 = partial(videos.write_at, codec="mpeg4", height=48, width=64)


def picture_times(path: Path, *, only_keys: bool = False) -> list[float]:
    with av.open(str(path)) as container:
        frames = container.decode(container.streams.video[0])
        return [frame.time or 0.0 for frame in frames if frame.key_frame or not only_keys]


@pytest.mark.parametrize("fps", [1, 12.5, Fraction(30000, 1001)])
def test_pictures_come_back_at_their_times(tmp_path: Path, fps: float | Fraction) -> None:
    path = tmp_path / "clip.mp4"
    assert write_h264(path, (grey(i * 10) for i in range(20)), fps=fps) == 20
    assert picture_times(path) == pytest.approx([i / float(fps) for i in range(20)], abs=1e-4)
    assert probe(path).duration_s == pytest.approx(20 / float(fps), abs=1e-3)
    levels = [frame.image.mean() for frame in read_frames(path, fps=float(fps))]
    assert levels == pytest.approx([i * 10 for i in range(20)], abs=3)


def test_browsers_can_play_and_seek(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write_h264(path, (grey(100) for _ in range(150)), fps=15)
    assert probe(path).is_browser_playable
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")  # the index comes first
    keys = [*picture_times(path, only_keys=True), 10.0]
    assert max(after - before for before, after in itertools.pairwise(keys)) <= 2.0


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        ([], "no images"),
        ([grey(0, width=63)], "must be even"),
        ([grey(0), grey(0, width=32)], "must all be"),
    ],
)
def test_images_that_do_not_fit_are_wrong_arguments_and_leave_nothing(
    tmp_path: Path, images: list[np.ndarray], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        write_h264(tmp_path / "clip.mp4", images, fps=10)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_in_the_middle_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"old")

    def images() -> Iterator[np.ndarray]:
        yield grey(0)
        raise RuntimeError("the drawing failed")

    with pytest.raises(RuntimeError, match="the drawing failed"):
        write_h264(path, images(), fps=10)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_conversion_keeps_true_times_of_a_variable_rate(tmp_path: Path) -> None:
    times = [0, 0.1, 0.2, 1.3, 1.4, 3.0, 6.0, 6.1]
    source = write_mpeg4(tmp_path / "source.mp4", times)
    assert not probe(source).is_browser_playable
    convert_for_browser(source, tmp_path / "out.mp4")
    assert probe(tmp_path / "out.mp4").is_browser_playable
    assert picture_times(tmp_path / "out.mp4") == pytest.approx(times, abs=2e-3)
    assert probe(tmp_path / "out.mp4").duration_s == pytest.approx(6.2, abs=0.1)
    keys = picture_times(tmp_path / "out.mp4", only_keys=True)
    assert {3.0, 6.0} <= {round(time_s, 2) for time_s in keys}
    before, after = (list(read_frames(path, fps=2)) for path in (source, tmp_path / "out.mp4"))
    assert [f.image.mean() for f in after] == pytest.approx([f.image.mean() for f in before], abs=4)


def test_conversion_keeps_how_long_the_last_picture_is_shown(tmp_path: Path) -> None:
    write_h264(tmp_path / "slides.mp4", [grey(50), grey(100)], fps=0.2)
    convert_for_browser(tmp_path / "slides.mp4", tmp_path / "out.mp4")
    assert probe(tmp_path / "out.mp4").duration_s == pytest.approx(10, abs=0.01)


def test_conversion_reduces_to_1280_wide_and_to_even_sizes(tmp_path: Path) -> None:
    convert_for_browser(write_mpeg4(tmp_path / "wide.avi", [0, 0.04], height=302, width=2560), tmp_path / "wide.mp4")
    wide = probe(tmp_path / "wide.mp4")
    assert (wide.width, wide.height) == (1280, 152)  # 302 / 2 = 151, made even
    convert_for_browser(write_mpeg4(tmp_path / "odd.avi", [0, 0.04], height=51, width=75), tmp_path / "odd.mp4")
    odd = probe(tmp_path / "odd.mp4")
    assert odd.width in (74, 76)
    assert odd.height in (50, 52)


def test_conversion_of_what_is_no_video_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "source.mp4").write_text("hello")
    with pytest.raises(VideoError, match="source"):
        convert_for_browser(tmp_path / "source.mp4", tmp_path / "out.mp4")
    assert not (tmp_path / "out.mp4").exists()


def test_conversion_of_a_truncated_file_keeps_what_can_be_read(tmp_path: Path) -> None:
    source = tmp_path / "cut.mp4"
    write_h264(source, (grey(i) for i in range(200)), fps=20)
    source.write_bytes(source.read_bytes()[: source.stat().st_size * 6 // 10])
    with pytest.warns(VideoWarning, match="could be read up to") as caught:
        convert_for_browser(source, tmp_path / "out.mp4")
    assert len(caught) == 1
    assert 1 < probe(tmp_path / "out.mp4").duration_s < 9
    times = picture_times(tmp_path / "out.mp4")
    assert times == pytest.approx([n / 20 for n in range(len(times))], abs=1e-3)


@pytest.mark.parametrize(
    ("name", "duration_s", "width"),
    [("h265_video.mp4", 1, 128), ("video_90.mov", 0.1, 320)],
)
def test_real_files_convert(tmp_path: Path, name: str, duration_s: float, width: int) -> None:
    if not (REAL / name).exists():
        pytest.skip(f"{REAL / name} is not here")
    convert_for_browser(REAL / name, tmp_path / "out.mp4")
    info = probe(tmp_path / "out.mp4")
    assert info.is_browser_playable
    assert info.duration_s == pytest.approx(duration_s, abs=0.02)
    assert info.width == width


@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_a_browser_needs_a_copy_to_reach_the_time_before_the_first_picture(tmp_path: Path, kind: str) -> None:
    path = write_recording(tmp_path / f"late.{kind}", levels=range(20, 60), start_s=1)
    assert len(list(read_frames(path, fps=2))) == 10
    assert probe(path).copy_reason == "browsers cannot show it before 1.00 s"
    convert_for_browser(path, tmp_path / "copy.mp4")
    assert probe(tmp_path / "copy.mp4").copy_reason == ""
    assert picture_times(tmp_path / "copy.mp4")[:2] == pytest.approx([0, 1.1], abs=1e-3)
    if kind == "webm":  # with sound from 0 on
        assert probe(add_sound(tmp_path / "sound.webm", path, length_s=5)).copy_reason == ""


@pytest.mark.parametrize(("length_s", "reason"), [(4, ""), (8, "browsers play on after its last picture")])
def test_a_video_whose_sound_is_longer_is_shown_as_a_copy(tmp_path: Path, length_s: int, reason: str) -> None:
    source = write_recording(tmp_path / "a.mp4", levels=range(20, 60))
    assert probe(add_sound(tmp_path / "b.mp4", source, length_s=length_s)).copy_reason == reason
