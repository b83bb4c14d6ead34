"""Seconds to read sampled frames, by codec: ``python -m benchmarks.engine.decode [SECONDS]``, by default of 60 s each.

Each codec encodes the same moving picture, 640 x 360 at 30 pictures/s. PyAV decodes every picture, which defines the
frames; the selective decoder decodes those that are sampled and what they depend on, in software and on an NVIDIA GPU
if there is one. CPU seconds count all threads.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import av
import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from stepscope.engine.errors import VideoError
from stepscope.engine.video.decoders import decode_with_pyav
from stepscope.engine.video.hardware import check_hardware
from stepscope.engine.video.reader import Decoders, Frame, sample_track
from stepscope.engine.video.selective import decode_sampled
from stepscope.engine.video.track import find_track

T = TypeVar("T")
HEIGHT, WIDTH, FPS = 360, 640, 30
SAMPLED_FPS: Final = (2.0, 0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """A way to encode the benchmark's video."""

    encoder: str
    suffix: str
    options: Mapping[str, str]


ENCODINGS: Final = {
    "h264, as x264 does": Encoding(encoder="libx264", suffix=".mp4", options={"preset": "veryfast"}),
    "h264, as StepScope does": Encoding(
        encoder="libx264", suffix=".mp4", options={"preset": "veryfast", "bf": "0", "g": "60"}
    ),
    "hevc": Encoding(
        encoder="libx265", suffix=".mp4", options={"preset": "ultrafast", "x265-params": "log-level=none"}
    ),
    "vp9": Encoding(encoder="libvpx-vp9", suffix=".webm", options={"deadline": "realtime", "cpu-used": "8"}),
    "vp8": Encoding(encoder="libvpx", suffix=".webm", options={"deadline": "realtime", "cpu-used": "8"}),
    "av1": Encoding(encoder="libsvtav1", suffix=".mp4", options={"preset": "12"}),
    "mpeg4": Encoding(encoder="mpeg4", suffix=".mp4", options={"bf": "2", "g": "60"}),
    "mpeg2video": Encoding(encoder="mpeg2video", suffix=".mkv", options={"bf": "2", "g": "15"}),
    "mjpeg": Encoding(encoder="mjpeg", suffix=".mov", options={}),
}
DECODERS: Final[dict[str, Decoders]] = {
    "every picture": (decode_with_pyav,),
    "selective": (decode_sampled,),
}
ON_GPU: Final[Decoders] = (partial(decode_sampled, device="cuda"),)


def main(duration_s: int) -> None:
    """Print the rows of each codec and rate."""
    has_gpu = find_gpu()
    with TemporaryDirectory() as folder:
        for name, encoding in ENCODINGS.items():
            path = Path(folder) / f"video{encoding.suffix}"
            with ThreadPoolExecutor(1) as pool:  # SVT-AV1 gives the thread that opens it real-time priority, if it may
                pool.submit(write_video, path, encoding, num_pictures=duration_s * FPS).result()
            for fps in SAMPLED_FPS:
                print_row(name, path, fps=fps, has_gpu=has_gpu)


def find_gpu() -> bool:
    """Return whether a GPU decodes videos; print the reason if none does."""
    try:
        check_hardware("cuda", ["cuda"])
    except VideoError as error:
        print(f"hardware decoding is not measured: {error}", flush=True)
        return False
    return True


def print_row(name: str, path: Path, *, fps: float, has_gpu: bool) -> None:
    """Print the times of the decoders, and whether their frames are equal."""
    found, times = dict[str, list[Frame]](), dict[str, tuple[float, float]]()
    for decoder, chain in DECODERS.items():
        found[decoder], times[decoder] = measure(partial(sample, path, fps=fps, decoders=chain))
    (wall_s, cpu_s), (selective_wall_s, selective_cpu_s) = times["every picture"], times["selective"]
    print(
        f"{name:24} {fps:4.1f} fps: every picture {wall_s:6.2f} s wall {cpu_s:6.2f} s CPU; selective "
        f"{selective_wall_s:6.2f} s wall {selective_cpu_s:6.2f} s CPU, {cpu_s / selective_cpu_s:4.1f}x; "
        f"{describe(found['selective'], found['every picture'])}",
        flush=True,
    )
    if has_gpu:
        print(f"{'':33} {describe_gpu(path, fps, found['selective'], times['selective'])}", flush=True)


def describe_gpu(path: Path, fps: float, exact: list[Frame], software_s: tuple[float, float]) -> str:
    """Decode on the GPU; return the wall and CPU times, their ratios to the software's, and whether frames differ."""
    try:
        frames, (wall_s, cpu_s) = measure(partial(sample, path, fps=fps, decoders=ON_GPU))
    except VideoError:
        return "not decoded by the GPU"
    ratios = f"{software_s[0] / wall_s:4.1f}x of wall, {software_s[1] / cpu_s:4.1f}x of CPU"
    return f"on the GPU {wall_s:6.2f} s wall {cpu_s:6.2f} s CPU, {ratios}; {describe(frames, exact)}"


def sample(path: Path, *, fps: float, decoders: Decoders) -> list[Frame]:
    """Read the sampled frames."""
    return list(sample_track(find_track(path), fps=fps, size=None, decoders=decoders))


def describe(frames: list[Frame], exact: list[Frame]) -> str:
    """Return how frames differ from the exact ones."""
    if [frame.index for frame in frames] != [frame.index for frame in exact]:
        return "OTHER FRAMES"
    differences = [int(np.abs(a.image.astype(np.int16) - b.image).max()) for a, b in zip(frames, exact, strict=True)]
    return "equal" if max(differences) == 0 else f"differs by up to {max(differences)}"


def write_video(path: Path, encoding: Encoding, *, num_pictures: int) -> Path:
    """Encode the moving picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoding.encoder, rate=FPS, options=dict(encoding.options))
        assert isinstance(stream, VideoStream)
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = "yuvj420p" if encoding.encoder == "mjpeg" else "yuv420p"
        stream.bit_rate = 2_000_000
        for image in draw(num_pictures):
            container.mux(stream.encode(VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def draw(num_pictures: int) -> Iterator[np.ndarray]:
    """Draw a scene that scrolls, with a moving square and noise."""
    random = np.random.default_rng(0)
    coarse = random.integers(0, 255, (HEIGHT // 8, WIDTH // 4, 3), np.uint8)
    scene = cv2.resize(coarse, (2 * WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    for number in range(num_pictures):
        left = 2 * number % WIDTH
        image = scene[:, left : left + WIDTH] // 2 + random.integers(0, 8, (HEIGHT, WIDTH, 3), np.uint8)
        top = int(140 + 120 * np.sin(number / 15))
        image[top : top + 60, 300:360] = (220, 40, 40)
        yield np.ascontiguousarray(image)


def measure(call: Callable[[], T]) -> tuple[T, tuple[float, float]]:
    """Return the result of a call, with its wall and CPU seconds."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    result = call()
    return result, (time.perf_counter() - wall_s, time.process_time() - cpu_s)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
