"""Hardware decoding: its frames are those of the software decoder, and a device that is absent is one sentence."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from benchmarks.engine.decode import ENCODINGS, write_video
from stepscope.engine.errors import VideoError
from stepscope.engine.video import hardware, selective
from stepscope.engine.video.hardware import check_hardware, find_decoding_device, to_software_format
from stepscope.engine.video.reader import Frame, VideoWarning, read_frames, sample_track
from stepscope.engine.video.selective import decode_sampled
from stepscope.engine.video.track import Track, find_track, open_container

ABSENT = "cuda:63"
HEIGHT, WIDTH = 64, 98
BIT_EXACT = {"h264, as x264 does", "h264, as StepScope does", "hevc", "vp9", "vp8"}
"""Codecs whose standard defines every sample; the others leave the rounding of their transform open."""


def write(path: Path, encoder: str, pixel_format: str) -> Path:
    """Write 3 s of a scene that scrolls, with saturated colours."""
    noise = np.random.default_rng(0).integers(0, 255, (HEIGHT // 8, WIDTH // 4, 3), np.uint8)
    scene = cv2.resize(noise, (4 * WIDTH, HEIGHT), interpolation=cv2.INTER_NEAREST)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=12, options={"g": "12"})
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, pixel_format
        for number in range(36):
            image: np.ndarray = np.ascontiguousarray(scene[:, 3 * number : 3 * number + WIDTH])
            container.mux(stream.encode(VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("video") / "v.mp4", "libx264", "yuv420p")


@pytest.fixture
def use_fake_device(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes the software decoder a device, whose frames have the given format."""

    def use(pixel_format: str) -> None:
        def download(frame: VideoFrame, track: Track, reformatter: VideoReformatter) -> VideoFrame:
            return to_software_format(VideoReformatter().reformat(frame, format=pixel_format), track, reformatter)

        monkeypatch.setattr(selective, "open_on_device", lambda track, device: open_container(track.path))
        monkeypatch.setattr(selective, "to_software_format", download)

    return use


def assert_equal(found: list[Frame], exact: list[Frame]) -> None:
    assert [(frame.index, frame.time_s) for frame in found] == [(frame.index, frame.time_s) for frame in exact]
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_array_equal(one.image, other.image)


@pytest.mark.parametrize(
    ("encoder", "pixel_format", "of_device"),
    [("libx264", "yuv420p", "nv12"), ("libx264", "yuv420p10le", "p010le")],
)
def test_equal_samples_of_a_device_give_equal_images(
    tmp_path: Path, use_fake_device: Callable[[str], None], encoder: str, pixel_format: str, of_device: str
) -> None:
    path = write(tmp_path / "v.mov", encoder, pixel_format)
    exact = list(read_frames(path, fps=3))
    use_fake_device(of_device)
    assert_equal(list(read_frames(path, fps=3, device="cuda")), exact)


def test_a_video_that_a_device_cannot_decode_is_decoded_in_software_with_a_warning(video: Path) -> None:
    reasons: list[str] = []
    assert_equal(
        list(read_frames(video, fps=4, device=ABSENT, on_damage=reasons.append)), list(read_frames(video, fps=4))
    )
    assert len(reasons) == 1
    assert reasons[0].startswith(f"{video}: decoded in software, not on {ABSENT} ({ABSENT}: ")
    with pytest.warns(VideoWarning, match="decoded in software"):
        list(read_frames(video, fps=1, device=ABSENT))


def test_a_device_that_is_absent_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        VideoError, match=f"^--hardware-decoding cuda: no video can be decoded on {ABSENT} .* omit the option$"
    ):
        check_hardware("cuda", [ABSENT])
    monkeypatch.setattr(hardware, "hwdevices_available", lambda: ["drm"])
    with pytest.raises(VideoError, match=r"^--hardware-decoding cuda needs a build of PyAV with cuda, "):
        check_hardware("cuda", ["cpu"])
    check_hardware("off", ["cpu"])


def test_the_gpu_of_the_model_decodes() -> None:
    assert find_decoding_device("cuda", "cuda:1") == "cuda:1"
    assert find_decoding_device("cuda", "cpu") == find_decoding_device("cuda", "auto") == "cuda"
    assert find_decoding_device("off", "cuda:1") == "cpu"


@pytest.mark.gpu
@pytest.mark.parametrize("name", ENCODINGS)
def test_the_frames_of_a_gpu_are_those_of_the_software_decoder(tmp_path: Path, name: str) -> None:
    check_hardware("cuda", ["cuda"])
    encoding = ENCODINGS[name]
    path = write_video(tmp_path / f"v{encoding.suffix}", encoding, num_pictures=120)
    read = partial(sample_track, find_track(path), fps=3.0, size=None)
    on_gpu = read(decoders=(partial(decode_sampled, device="cuda"),))
    if encoding.encoder == "libsvtav1":
        with pytest.raises(VideoError, match="cuda does not decode av1"):
            list(on_gpu)
        return
    frames, exact = list(on_gpu), list(read())
    if name in BIT_EXACT:
        assert_equal(frames, exact)
    assert [(frame.index, frame.time_s) for frame in frames] == [(frame.index, frame.time_s) for frame in exact]
    for one, other in zip(frames, exact, strict=True):
        assert np.abs(one.image.astype(int) - other.image).mean() < 1
