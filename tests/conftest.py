"""Fixtures that several rooms' tests share: a tiny checkpoint on disk, bundled videos, and uploads that are wrong."""

# ruff: noqa: E402 - garbage collection pauses before the libraries are imported
import gc
import json
import multiprocessing
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

gc.disable()  # until all tests are imported: what the packages make lives as long as the process
import av
import numpy as np
import pytest
import torch
from hypothesis import settings
from playwright.sync_api import Browser, Page

from stepscope.engine.loading import load_model
from stepscope.engine.model.checkpoint import Checkpoint
from stepscope.engine.video.writer import write_h264
from stepscope.eval.runs.worker_messages import WorkerConfig
from tests.support.ci_report import pytest_sessionfinish  # noqa: F401 - a hook
from tests.support.data.batches import copies, make_worker_config, run_to_end, write_split
from tests.support.pages.browser import open_browser
from tests.support.servers.programs import STARTED, WORKER
from tests.support.streams.fakes import tiny_checkpoint

# A busy machine is no failure; CI draws the same inputs each time, a desk new ones.
settings.register_profile("stepscope", deadline=None, derandomize=bool(os.environ.get("STEPSCOPE_CI")))
settings.load_profile("stepscope")
torch.set_num_threads(1)  # the models here are tiny: more threads would only wait for one another
multiprocessing.set_forkserver_preload([WORKER])
STEPS = [
    {"id": "S1", "name": "attach the wheel"},
    {"id": "S2", "name": "put on the roof"},
    {"id": "S3", "name": "load the block"},
]
TURNS = [
    {"time_s": 0.5, "role": "assistant", "text": "Let's build the toy truck."},
    {"time_s": 1.0, "role": "update", "text": "S1->start"},
    {"time_s": 2.0, "role": "update", "text": "S1->complete"},
    {"time_s": 2.0, "role": "update", "text": "S2->start"},
    {"time_s": 3.5, "role": "user", "text": "What is next?"},
]


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """Files that a user may upload, most of them by mistake."""

    empty: Path
    noise: Path
    long: Path
    """Lasts 11:00."""
    damaged: Path
    """Breaks off after about half of its 6 s."""
    foreign: Path
    """MPEG-4 part 2, which browsers do not play; 2 s."""
    good: Path
    """40 s, with a name that is hard to write."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files that start a browser or a page, which take longest, evenly among the others.

    Each worker begins with an equal part of the list, and a file that two of them share starts its page twice.
    """
    files = [list(tests) for _, tests in groupby(items, lambda item: item.path)]
    slow = [tests for tests in files if any(item.get_closest_marker("browser") for item in tests)]
    quick = [tests for tests in files if tests not in slow]
    places = [(number * max(1, len(quick) / max(1, len(slow))), tests) for number, tests in enumerate(slow)]
    placed = sorted([*places, *enumerate(quick)], key=lambda pair: pair[0])
    items[:] = [item for _, tests in placed for item in tests]


def pytest_collection_finish() -> None:
    """Let garbage collection search what tests make, and leave out the million objects of the packages."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show where the threads of the programs are that a test which failed had started."""
    report = yield
    if report.failed:
        running = [program for program in STARTED if program.is_running]
        report.sections += [(f"program {program.pid}", program.dump_stacks()) for program in running]
    return report


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what the programs keep for the user in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def environment_stays() -> Iterator[None]:
    """Restore the environment after a test: the programs of tests with the same one are forked from one process."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(autouse=True, scope="session")
def no_process_is_left() -> Iterator[None]:
    """End the processes that a failed test left: at its exit, Python would wait for them forever."""
    yield
    for process in multiprocessing.active_children():
        process.kill()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny random checkpoint, which says little whenever it speaks."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tiny_checkpoint(folder, is_terse=True)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Path) -> Checkpoint:
    return load_model(tiny_folder, device="cpu")


@pytest.fixture(scope="session")
def demo_manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a manifest of two drawn videos of 6 s, at 2 frames per second."""
    folder = tmp_path_factory.mktemp("demo")
    videos: list[dict[str, Any]] = []
    for number in (1, 2):
        write_h264(folder / f"truck-{number}.mp4", moving_square(60, shade=50 * number), fps=10)
        videos.append(
            {
                "video_id": f"truck-{number}",
                "video_path": f"truck-{number}.mp4",
                "fps": 2.0,
                "num_frames": 12,
                "goal": "build the toy truck",
                "steps": STEPS,
                "turns": TURNS,
            }
        )
    manifest = folder / "test.json"
    manifest.write_text(json.dumps({"videos": videos}), encoding="utf-8")
    return manifest


@pytest.fixture(scope="session")
def six_videos(demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a split of six videos, each longer than the one before."""
    folder = tmp_path_factory.mktemp("six")
    return write_split(folder, *copies(demo_manifest, folder, 6))


@pytest.fixture(scope="session")
def live_work(tiny_folder: Path) -> WorkerConfig:
    """Return the work of the tiny checkpoint, with the teacher-forced pass."""
    return make_worker_config(tiny_folder, live=True)


@pytest.fixture(scope="session")
def undisturbed(six_videos: Path, live_work: WorkerConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the six videos without any trouble; what goes wrong elsewhere must change none of their tables."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = run_to_end(six_videos, live_work, out)
    assert [event.record.error for event in done] == [""] * 6
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser for the tests of one file: while it runs, no other event loop can."""
    with open_browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Page]:
    """Open one window for the tests of a file, each of which calls ``forget``: a new one loads a page more slowly."""
    page = browser.new_page()
    yield page
    page.close()


@pytest.fixture(scope="session")
def uploads(tmp_path_factory: pytest.TempPathFactory) -> Uploads:
    """Write the uploads."""
    folder = tmp_path_factory.mktemp("uploads")
    files = Uploads(
        empty=folder / "empty.mp4",
        noise=folder / "noise.mp4",
        long=folder / "long.mp4",
        damaged=folder / "damaged.mkv",
        foreign=folder / "foreign.mp4",
        good=folder / "Lok 組み立て <b>1 & 2.mp4",
    )
    files.empty.touch()
    files.noise.write_bytes(np.random.default_rng(0).bytes(4096))
    write_h264(files.long, moving_square(660, shade=90), fps=1)
    write_h264(files.good, moving_square(80, shade=120), fps=2)
    write_with(files.damaged, moving_square(60, shade=60), codec="libx264", fps=10)
    content = files.damaged.read_bytes()
    files.damaged.write_bytes(content[: len(content) * 6 // 10])
    write_with(files.foreign, moving_square(20, shade=60), codec="mpeg4", fps=10)
    return files


def moving_square(num_frames: int, *, shade: int) -> Iterator[np.ndarray]:
    """Draw images in which a square goes from left to right."""
    for index in range(num_frames):
        image = np.full((90, 120, 3), shade, np.uint8)
        left = index * 90 // num_frames
        image[30:60, left : left + 30] = (220, 80, 60)
        yield image


def write_with(path: Path, images: Iterator[np.ndarray], *, codec: str, fps: int) -> None:
    """Write a video with a codec of PyAV's."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=fps)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 120, 90, "yuv420p"
        stream.codec_context.gop_size = 5
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
