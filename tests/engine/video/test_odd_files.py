"""Files as people have them: mirrored, HDR, appended, with a late clock, of odd shapes. All decoders agree."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import av
import numpy as np
import pytest

from stepscope.app.core.videos import read_upload
from stepscope.engine.errors import VideoError
from stepscope.engine.records import Excerpt
from stepscope.engine.video.decoders import Picture, decode_with_decord, decode_with_opencv, decode_with_pyav
from stepscope.engine.video.network import open_url
from stepscope.engine.video.reader import Frame, find_cut, find_damage, probe, read_frames, sample_track
from stepscope.engine.video.selective import decode_sampled
from stepscope.engine.video.track import Track, find_track
from stepscope.engine.video.writer import convert_for_browser, write_h264
from tests.support.servers.network import serve_files
from tests.support.streams.odd import (
    MATRICES,
    append,
    store_duration,
    write_edits,
    write_hdr,
    write_matrix,
    write_recording,
)
from tests.support.streams.videos import write_at

Decode = Callable[[Track], Iterator[Picture]]
MIRRORED = {"hflip", "vflip", "transpose", "transverse"}
PLAYS_ON = "browsers play on after its last picture"
needs_decord = pytest.mark.skipif(find_spec("decord") is None, reason="no decord here")
DECODERS = [decode_sampled, decode_with_pyav, pytest.param(decode_with_decord, marks=needs_decord), decode_with_opencv]


def read(path: Path, decode: Decode, *, fps: float = 2.0) -> list[Frame]:
    return list(sample_track(find_track(path), fps=fps, size=None, decoders=(decode,), on_damage=pytest.fail))


def displayed(image: np.ndarray, name: str) -> np.ndarray:
    """Work out what a matrix shows, point by point."""
    a, b, c, d = MATRICES[name]
    height, width = image.shape[:2]
    points = {(a * x + c * y, b * x + d * y): image[y, x] for y in range(height) for x in range(width)}
    left, top = min(x for x, _ in points), min(y for _, y in points)
    shape = (max(y for _, y in points) - top + 1, max(x for x, _ in points) - left + 1, 3)
    shown = np.zeros(shape, np.uint8)
    for (x, y), value in points.items():
        shown[y - top, x - left] = value
    return shown


@pytest.fixture(scope="module")
def corners(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of 96 x 64 pixels whose four quarters differ."""
    image = np.zeros((64, 96, 3), np.uint8)
    image[:32, :48], image[:32, 48:], image[32:, :48] = (220, 0, 0), (0, 220, 0), (0, 0, 220)
    path = tmp_path_factory.mktemp("corners") / "corners.mp4"
    write_h264(path, [image] * 4, fps=2, crf=10)
    return path


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with serve_files(tmp_path) as url:
        yield url


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("name", ["vflip", "90", "270", "transverse"])
def test_every_decoder_applies_the_whole_display_matrix(
    corners: Path, tmp_path: Path, decode: Decode, name: str
) -> None:
    stored = read(corners, decode)[0].image
    path = write_matrix(tmp_path / "turned.mp4", corners, name=name)
    image = read(path, decode)[0].image
    np.testing.assert_array_equal(image, displayed(stored, name))
    assert (probe(path).height, probe(path).width) == image.shape[:2]
    assert (probe(path).copy_reason == "not every browser mirrors pictures") == (name in MIRRORED)


def test_the_display_copy_and_a_network_source_apply_the_matrix_once(
    corners: Path, tmp_path: Path, address: str
) -> None:
    path = write_matrix(tmp_path / "turned.mp4", corners, name="transverse")
    wanted = displayed(read(corners, decode_with_pyav)[0].image, "transverse")
    np.testing.assert_array_equal(next(open_url(f"{address}/turned.mp4").pictures).image, wanted)
    convert_for_browser(path, tmp_path / "copy.mp4")
    copied = next(read_frames(tmp_path / "copy.mp4", fps=2)).image
    assert copied.shape == wanted.shape
    assert np.abs(copied.astype(int) - wanted).mean() < 6


@pytest.mark.parametrize("decode", [decode_sampled, decode_with_pyav])
@pytest.mark.parametrize("kind", ["ts", "live.webm", "mkv", "fragmented.mp4"])
def test_recordings_that_are_appended_follow_each_other(tmp_path: Path, decode: Decode, kind: str) -> None:
    first = write_recording(tmp_path / f"a.{kind}", levels=range(20, 70))
    second = write_recording(tmp_path / f"b.{kind}", levels=range(120, 170))
    whole = append(tmp_path / f"whole.{kind}", first, second)
    alone = [frame.image.mean() for path in (first, second) for frame in read(path, decode)]
    frames = read(whole, decode)
    assert [frame.image.mean() for frame in frames] == pytest.approx(alone, abs=2.5)  # 5 s each, at 10 pictures/s
    assert [frame.index for frame in frames] == list(range(20))
    assert probe(whole).duration_s == pytest.approx(10, abs=0.02)
    assert probe(whole).copy_reason


@pytest.mark.parametrize("kind", ["mp4", "flv"])
def test_a_recording_that_is_appended_and_cannot_be_read_is_named(tmp_path: Path, kind: str) -> None:
    first = write_recording(tmp_path / f"a.{kind}", levels=range(20, 70))
    second = write_recording(tmp_path / f"b.{kind}", levels=range(120, 170), width=64)
    whole, damages = append(tmp_path / f"whole.{kind}", first, second), list[str]()
    frames = list(read_frames(whole, fps=2, on_damage=damages.append))
    levels = [frame.image.mean() for frame in read_frames(first, fps=2, on_damage=pytest.fail)]
    assert [frame.image.mean() for frame in frames] == levels
    assert probe(whole).duration_s == pytest.approx(5, abs=0.1)
    assert damages == [
        f"{whole}: only its first 5.00 s can be read: another recording is appended to the file; "
        "give each recording as a file, or join them with FFmpeg's concat"
    ]
    list(read_frames(whole, fps=2, excerpt=Excerpt(start_s=1, num_frames=2), on_damage=pytest.fail))


def test_a_video_of_a_codec_that_cannot_be_decoded_is_refused(tmp_path: Path, address: str) -> None:
    path = write_recording(tmp_path / "a.mp4", levels=range(20, 30))
    content = bytearray(path.read_bytes())
    at = content.index(b"avc1", content.index(b"stsd"))
    content[at : at + 4] = b"encv"
    path.write_bytes(content)
    for read_file in (probe, partial(read_frames, fps=2)):
        with pytest.raises(VideoError, match="its video is encrypted, or of an unknown codec; convert it"):
            read_file(path)
    with pytest.raises(VideoError, match="has no video stream that can be decoded"):
        open_url(f"{address}/a.mp4")


@pytest.mark.parametrize("place", [0, 11])
def test_pictures_that_lack_data_of_a_transport_stream_are_left_out(tmp_path: Path, place: int) -> None:
    first = write_recording(tmp_path / "a.ts", levels=range(20, 80))
    second = write_recording(tmp_path / "b.ts", levels=range(80, 140), start_s=7)
    path = append(tmp_path / "whole.ts", first, second)
    whole = [frame.image.mean() for frame in read_frames(path, fps=10, on_damage=pytest.fail)]
    assert whole[-1] == pytest.approx(139, abs=2)  # where they meet, FFmpeg marks whole pictures, too
    with av.open(str(path)) as container:
        starts = [packet.pos or 0 for packet in container.demux(video=0) if packet.size]
    content, damages = path.read_bytes(), list[str]()
    at = starts[20 + place]  # of the second group of 20 pictures
    path.write_bytes(content[:at] + content[at + 188 :])
    levels = [frame.image.mean() for frame in read_frames(path, fps=10, on_damage=damages.append)]
    assert set(levels) < set(whole)
    assert all(seen <= wanted for seen, wanted in zip(levels, whole, strict=True))  # the picture before, not a smear
    assert levels[:19] + levels[40:] == whole[:19] + whole[40:]
    assert f"PyAV: data is missing at {find_damage(path):.2f} s; pictures are left out up to" in damages[0]
    assert find_damage(path) == pytest.approx(2 + place / 10, abs=0.35)


@pytest.mark.parametrize("stored_s", [0.4, 50.0])
def test_a_stored_duration_that_is_wrong_changes_no_pictures(tmp_path: Path, stored_s: float) -> None:
    path = write_at(tmp_path / "a.mkv", [number / 10 for number in range(40)])
    store_duration(path, duration_s=stored_s)
    assert probe(path).duration_s == pytest.approx(4, abs=0.11)
    assert find_cut(path) is None
    excerpt = Excerpt(start_s=2, num_frames=4)
    assert len(list(read_frames(path, fps=2, excerpt=excerpt, on_damage=pytest.fail))) == 4


@pytest.mark.parametrize("decode", [decode_sampled, decode_with_pyav])
def test_pictures_of_fragments_before_their_edit_list_are_left_out(tmp_path: Path, decode: Decode) -> None:
    path = write_recording(tmp_path / "early.cut.mp4", levels=range(20, 60), start_s=-1)
    assert [frame.image.mean() for frame in read(path, decode)] == pytest.approx(range(30, 60, 5), abs=1.5)
    assert probe(path).duration_s == pytest.approx(3, abs=0.01)
    assert find_cut(path) is None


def test_a_picture_that_is_displayed_for_hours_is_named(tmp_path: Path) -> None:
    path = write_at(tmp_path / "jump.ts", [*range(9), *range(7208, 7217)])
    remarks: list[str] = []
    assert len(list(read_frames(path, fps=0.5, on_damage=remarks.append))) == pytest.approx(3609, abs=1)
    (remark,) = remarks
    assert "one picture is displayed from 0:08 to 2:00:08; if its recorder's clock jumped, cut the file there" in remark
    with pytest.raises(VideoError, match=r"lasts 2:00:1., .* one picture is displayed from 0:08 to 2:00:08"):
        read_upload(path, fps=2, max_duration_s=600)


def test_three_recordings_and_an_excerpt_of_the_last_one(tmp_path: Path, address: str) -> None:
    parts = [
        write_recording(tmp_path / f"{low}.ts", levels=range(low, low + 50), start_s=start_s)
        for low, start_s in ((20, 0), (120, 3600), (180, 30))
    ]
    whole = append(tmp_path / "whole.ts", *parts)
    frames = list(read_frames(whole, fps=2))
    assert len(frames) == 30
    excerpt = list(read_frames(whole, fps=2, excerpt=Excerpt(start_s=11.0, num_frames=6)))
    np.testing.assert_array_equal([frame.image for frame in excerpt], [frame.image for frame in frames[22:28]])
    times = [picture.time_s for picture in open_url(f"{address}/whole.ts").pictures]
    assert times == pytest.approx([number / 10 for number in range(150)], abs=1e-3)
    convert_for_browser(whole, tmp_path / "copy.mp4")
    copied = list(read_frames(tmp_path / "copy.mp4", fps=2))
    assert [f.image.mean() for f in copied] == pytest.approx([f.image.mean() for f in frames], abs=3)


@pytest.mark.parametrize("transfer", ["pq", "hlg"])
def test_hdr_has_the_colours_of_the_standard_picture(tmp_path: Path, transfer: str) -> None:
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (128, 128, 128), (200, 120, 60), (64, 64, 64)]
    path = write_hdr(tmp_path / "hdr.mp4", colours, transfer=transfer)
    image = read(path, decode_sampled)[0].image
    seen = [image[32, 64 * number + 32].tolist() for number in range(len(colours))]
    np.testing.assert_allclose(seen, colours, atol=20)  # 4:2:0 and 10 bits
    np.testing.assert_allclose(seen[3:5], colours[3:5], atol=4)
    convert_for_browser(path, tmp_path / "copy.mp4")
    copied = next(read_frames(tmp_path / "copy.mp4", fps=2)).image
    assert np.abs(copied.astype(int) - image).mean() < 4
    assert probe(path).copy_reason


@pytest.mark.parametrize("decode", [decode_sampled, decode_with_pyav])
def test_a_clock_that_starts_later_than_the_content_lasts_counts_from_the_first_picture(
    tmp_path: Path, decode: Decode
) -> None:
    path = write_at(tmp_path / "late.mp4", [1000 + number / 10 for number in range(40)])
    frames = read(path, decode)
    assert [frame.time_s for frame in frames] == pytest.approx([number / 2 for number in range(8)], abs=1e-3)
    assert probe(path).duration_s == pytest.approx(4.0, abs=0.11)
    assert probe(path).copy_reason == "its clock starts at 1000 s"


@pytest.mark.parametrize(
    ("edits", "numbers"),
    [
        ([(2, None), (2, 0)], [*[0] * 20, *range(20)]),  # cut at a key picture
        ([(0.8, 0.5), (0.7, 2.5)], [*range(5, 13), *range(25, 32)]),
        ([(1, 0), (3, 1), (2, 2)], [*range(40), *range(20, 40)]),  # repeats the end
    ],
)
def test_an_edit_list_delays_repeats_and_cuts(
    tmp_path: Path, edits: list[tuple[float, float | None]], numbers: Iterable[int]
) -> None:
    path = write_recording(tmp_path / "a.mp4", levels=range(20, 220, 5))
    write_edits(path, edits)
    levels = [frame.image.mean() for frame in read_frames(path, fps=10, on_damage=pytest.fail)]
    assert levels == pytest.approx([20 + 5 * number for number in numbers], abs=2)
    assert probe(path).duration_s == pytest.approx(len(levels) / 10)
    is_late, is_longer = edits[0][1] is None, len(levels) > 40
    reason = "browsers stop before its last picture" if is_longer else PLAYS_ON
    assert probe(path).copy_reason == ("browsers cannot show it before 2.00 s" if is_late else reason)


@pytest.mark.parametrize(("name", "codec"), [("a.mp4", "mpeg4"), ("a.mkv", "ffv1")])
def test_decoders_agree_on_odd_sizes_and_the_last_picture_of_a_variable_rate(
    tmp_path: Path, name: str, codec: str
) -> None:
    times = [0, 0.1, 0.2, 1.3, 1.4, 3.0, 3.05, 3.1, 4.7, 5.1]
    path = write_at(tmp_path / name, times, codec=codec, height=51, width=75)
    first, other = (read(path, decode, fps=10) for decode in (decode_with_pyav, decode_with_opencv))
    with pytest.raises(VideoError, match=r"decord( is not installed|: blurs the colours of odd sizes)"):
        read(path, decode_with_decord)
    assert [one.time_s for one in first] == pytest.approx([one.time_s for one in other], abs=1e-3)
    assert [one.image.mean() for one in first] == pytest.approx([one.image.mean() for one in other], abs=1.5)
