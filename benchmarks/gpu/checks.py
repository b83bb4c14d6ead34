"""What the machine is, its tests, decoding by NVDEC, and the exactness of each family and mode."""

import copy
import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch
import transformers

from benchmarks.gpu.settings import BUNDLED, ROOT, Figure, Figures, Settings, SkippedError
from benchmarks.random_model import build_random_workload
from stepscope.engine.bench.modes import CLOSE_MARGIN, list_modes, measure, stream_in_float32
from stepscope.engine.inference.cuda_graphs import describe_graphs
from stepscope.engine.stream import StreamRequest


def describe_machine(settings: Settings) -> Figures:
    """Yield the card and the versions. Raises ``RuntimeError`` if the device cannot compute."""
    device = torch.device(settings.device)
    torch.ones(2, device=device).sum().item()
    if device.type == "cuda":
        card = torch.cuda.get_device_properties(device)
        yield Figure(name="card", value=card.name, note=f"compute capability {card.major}.{card.minor}")
        yield Figure(name="memory", value=card.total_memory / 2**20, unit="MiB")
        yield Figure(name="CUDA of torch", value=str(torch.version.cuda))
    else:
        yield Figure(name="card", value=f"none: {settings.device}, {torch.get_num_threads()} threads")
    yield Figure(name="torch", value=torch.__version__)
    yield Figure(name="transformers", value=transformers.__version__)
    yield Figure(name="Python", value=platform.python_version())


_NEEDED: Final = ("pytest", "hypothesis", "playwright", "av", "cv2", "filelock", "pydantic")
"""Packages of ``tests/conftest.py``."""
_FILES: Final = ("tests/engine/inference/test_cuda_graphs.py", "tests/engine/video/test_hardware.py")
_RUN: Final = "import sys, benchmarks.gpu, pytest; sys.exit(pytest.main(sys.argv[1:]))"
_FAILED: Final = 1
"""pytest's exit code for failed tests; others are errors of the run itself."""


def run_tests(settings: Settings) -> Figures:
    """Run the tests, and yield the number of each outcome; the output is in ``gpu-tests.log``."""
    settings.need_gpu()
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise SkippedError(f"needs the packages {', '.join(missing)}")
    command = [sys.executable, "-c", _RUN, "-q", "-m", "gpu", "-p", "no:cacheprovider", *_FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    log = settings.out / "gpu-tests.log"
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr.strip()]
    for number, outcome in re.findall(r"(\d+) (passed|failed|errors?|skipped)", last[0]):
        yield Figure(name=f"tests {outcome}", value=float(number))
    if done.returncode:
        what = "tests failed" if done.returncode == _FAILED else f"pytest ended with {done.returncode}"
        raise RuntimeError(f"{what}; {log} has the output")


_SAMPLED_FPS: Final = 2.0
_DURATION_S: Final = 10


def compare_decoding(settings: Settings) -> Figures:
    """Yield the times of each codec, in software and with NVDEC.

    Raises ``SkippedError`` if PyAV or the machine lacks NVDEC.
    """
    settings.need_gpu()
    if missing := [name for name in ("av", "cv2") if find_spec(name) is None]:
        raise SkippedError(f"needs the packages {', '.join(missing)}")
    from benchmarks.engine import decode  # noqa: PLC0415 - needs PyAV and OpenCV
    from stepscope.engine.errors import VideoError  # noqa: PLC0415
    from stepscope.engine.video.hardware import check_hardware  # noqa: PLC0415 - needs PyAV

    try:
        check_hardware("cuda", [settings.device])
    except VideoError as error:
        raise SkippedError(str(error)) from error
    with TemporaryDirectory() as folder:
        for name, encoding in decode.ENCODINGS.items():
            path = Path(folder) / f"video{encoding.suffix}"
            with ThreadPoolExecutor(1) as pool:  # as in ``benchmarks.engine.decode``
                pool.submit(decode.write_video, path, encoding, num_pictures=_DURATION_S * decode.FPS).result()
            read = partial(decode.sample, path, fps=_SAMPLED_FPS)
            exact, times = decode.measure(partial(read, decoders=decode.DECODERS["selective"]))
            yield Figure(name=name, value=times[0], unit="s", note=f"software, {times[1]:.2f} s CPU")
            note = decode.describe_gpu(path, _SAMPLED_FPS, exact, times)
            yield Figure(name=f"{name}, NVDEC", value=note)


_FAMILIES: Final = {
    "SmolVLM, trained": BUNDLED,
    "SmolVLM": "SmolVLM2-256M",
    "VideoLLM-online": "tiny-10",
    "Qwen2.5-VL": "tiny-VL",
}
_ROWS: Final = 3


def compare_modes(settings: Settings) -> Figures:
    """Yield whether each mode equals the defining one in float32, or how many of its decisions differ in bfloat16.

    Raises ``AssertionError`` at the end if a mode differs in float32.
    """
    wrong: list[str] = []
    num_frames = 8 if settings.is_tiny else 24
    for dtype in ("float32", "bfloat16"):
        for family, shape in _FAMILIES.items():
            checkpoint = settings.load(shape, dtype=dtype)
            workload = build_random_workload(
                checkpoint, num_videos=_ROWS, num_frames=num_frames, trigger_ratio=0.1, response_tokens=12
            )
            config, videos, reference = workload.config, workload.videos, None
            if dtype != "float32":
                exact = replace(checkpoint, model=copy.deepcopy(checkpoint.model).float(), graphs=None)
                reference = stream_in_float32(exact, [_as_float32(video) for video in videos], config, rows=_ROWS)
            modes = list_modes(config, rows=_ROWS, graphs=checkpoint.graphs is not None)
            for row in measure(checkpoint, videos, modes, warms_up=False, reference=reference):
                name = f"{family}, {dtype}, {row.mode}"
                if dtype == "float32":
                    value = "equal" if row.is_equal and row.prob_difference <= 1e-4 else "DIFFERS"
                    wrong += [name] if value != "equal" else []
                    yield Figure(name=name, value=value, note=f"probabilities within {row.prob_difference:.0e}")
                else:
                    note = f"of {row.decisions} decisions; {row.near} are within {CLOSE_MARGIN} of the threshold"
                    yield Figure(name=name, value=float(row.differing), unit="differ", note=note)
            if checkpoint.graphs is not None:
                yield Figure(name=f"{family}, {dtype}, graphs", value=describe_graphs(checkpoint, config))
    if wrong:
        raise AssertionError(f"other results in float32: {'; '.join(wrong)}")


def _as_float32(video: StreamRequest) -> StreamRequest:
    return replace(video, features=[replace(frame, features=frame.features.float()) for frame in video.features])
