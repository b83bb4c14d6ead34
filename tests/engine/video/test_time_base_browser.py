"""Chromium shows the model's frames: one clock for files that start late, with and without sound; the same colours."""

import base64
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import OutputContainer
from playwright.sync_api import Browser, Page

from stepscope.engine.video.reader import find_copy_reason, read_frames
from stepscope.engine.video.writer import convert_for_browser, write_h264
from tests.support.pages.browser import NEEDS_CHROMIUM

pytestmark = NEEDS_CHROMIUM
PICTURE_S = 6e-4
"""Time after an instant to which the player seeks."""
FPS, NUM_PICTURES, RATE, CHUNK = 10, 30, 48_000, 960
SHOWN = """async ([text, times]) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const video = document.createElement('video'), canvas = document.createElement('canvas');
    const pen = canvas.getContext('2d', {willReadFrequently: true}), seen = [];
    video.muted = true;
    video.src = URL.createObjectURL(new Blob([bytes]));
    await new Promise((done, fail) => { video.onloadeddata = done; video.onerror = () => fail(video.error.message); });
    for (const time of times) {
        const shown = new Promise((done) => { video.requestVideoFrameCallback(done); });
        video.currentTime = time;
        await new Promise((done) => { video.onseeked = done; });
        if (Math.abs(video.currentTime - time) > 0.01) throw new Error(`at ${video.currentTime}, not ${time}`);
        await Promise.race([shown, new Promise((done) => { setTimeout(done, 300); })]); // one alike is not shown again
        pen.drawImage(video, 0, 0, 8, 8);
        seen.push(pen.getImageData(4, 4, 1, 1).data[0]);
    }
    return seen;
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def write(path: Path, *, codec: str, start_s: float, sound_s: float | None) -> Path:
    """Write 3 s of pictures that grow brighter from ``start_s`` on, and silence from ``sound_s`` on."""
    is_uneven, is_fragmented = path.name.startswith("uneven"), path.name.startswith("fragmented")
    options = {"live": "1"} if ".live." in path.name else {}
    options |= {"movflags": "+frag_keyframe+empty_moov"} if is_fragmented else {}
    with av.open(str(path), "w", options=options) as container:
        video = container.add_stream(codec, rate=FPS)
        assert isinstance(video, av.VideoStream)
        video.width, video.height, video.pix_fmt = 64, 64, "yuv420p"
        video.codec_context.time_base = Fraction(1, 1000)
        video.codec_context.gop_size = 10 if is_fragmented else 1  # with B-frames
        sound = container.add_stream("aac" if codec == "libx264" else "libopus", rate=RATE, layout="mono")
        assert isinstance(sound, AudioStream)
        if sound_s is not None:
            add_silence(container, sound, sound_s, start_s + NUM_PICTURES / FPS)
        for number in range(NUM_PICTURES):
            image = np.full((64, 64, 3), 20 + 7 * number, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p")
            early_s = (0.02 if number % 2 else -0.05) * (is_uneven and number > 0)
            frame.pts, frame.time_base = round(1000 * (start_s + number / FPS - early_s)), Fraction(1, 1000)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
    return path


def add_silence(container: OutputContainer, sound: AudioStream, begin_s: float, end_s: float) -> None:
    for number in range(int((end_s - begin_s) * RATE / CHUNK)):
        frame = AudioFrame(format="fltp" if sound.codec_context.name == "aac" else "flt", layout="mono", samples=CHUNK)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.sample_rate, frame.time_base = RATE, Fraction(1, RATE)
        frame.pts = round(begin_s * RATE) + number * CHUNK
        container.mux(sound.encode(frame))
    container.mux(sound.encode(None))


@pytest.mark.parametrize(
    ("name", "codec", "start_s", "sound_s"),
    [
        ("late.webm", "libvpx", 1.0, None),
        ("sound.mp4", "libx264", 0.7, 0.0),
        ("uneven.live.webm", "libvpx", 0.0, None),
        ("fragmented.mp4", "libx264", 0.0, None),
    ],
)
def test_the_browser_shows_the_picture_of_our_frame(
    page: Page, tmp_path: Path, name: str, codec: str, start_s: float, sound_s: float | None
) -> None:
    path = write(tmp_path / name, codec=codec, start_s=start_s, sound_s=sound_s)
    frames = list(read_frames(path, fps=FPS))
    assert len(frames) == pytest.approx(FPS * start_s + NUM_PICTURES, abs=2)  # B-frames may begin later
    times = [PICTURE_S + number / FPS for number in range(len(frames) - 1)]
    if find_copy_reason(path):
        convert_for_browser(path, path := tmp_path / "converted.mp4")
    seen = page.evaluate(SHOWN, [base64.b64encode(path.read_bytes()).decode(), times])
    wanted = [int(frames[int(time * FPS)].image[32, 32, 0]) for time in times]
    assert seen == pytest.approx(wanted, abs=3)  # pictures are 7 apart
    assert len(set(wanted)) > 5


def test_a_written_video_has_its_colours(page: Page, tmp_path: Path) -> None:
    write_h264(tmp_path / "red.mp4", [np.full((64, 64, 3), (220, 30, 30), np.uint8)] * 3, fps=1)
    content = base64.b64encode((tmp_path / "red.mp4").read_bytes()).decode()
    assert page.evaluate(SHOWN, [content, [1.5]]) == [pytest.approx(220, abs=3)]
