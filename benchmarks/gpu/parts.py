"""The parts of the benchmark in their order, and each one in a process of its own.

A part that crashes, hangs or runs out of memory ends its process alone; its earlier figures are kept.
"""

import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal

import torch

from benchmarks.gpu import checks, questions, speed
from benchmarks.gpu.settings import Figure, Figures, Settings, SkippedError

FORK_S: Final = 60.0
"""Time for the trial of a fork, which takes less than a second."""
State = Literal["done", "failed", "skipped", "stopped", "not run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part: its function, and its share of the time, as a weight."""

    name: str
    weight: float
    run: Callable[[Settings], Figures]


PARTS: Final = (
    Part(name="machine", weight=2, run=checks.describe_machine),
    Part(name="gpu tests", weight=6, run=checks.run_tests),
    Part(name="kernels of Triton", weight=3, run=speed.compare_kernels_of_triton),
    Part(name="exactness", weight=8, run=checks.compare_modes),
    Part(name="SmolVLM2-2.2B", weight=16, run=partial(speed.run, shape="SmolVLM2-2.2B", num_videos=32, compares=True)),
    Part(name="profile of SmolVLM2-2.2B", weight=3, run=partial(speed.profile_pass, shape="SmolVLM2-2.2B")),
    Part(name="profile of SmolVLM2-256M", weight=2, run=partial(speed.profile_pass, shape="SmolVLM2-256M")),
    Part(name="training of SmolVLM2-500M", weight=3, run=speed.time_training),
    Part(name="Llama-3-8B-10", weight=7, run=partial(speed.run, shape="Llama-3-8B-10", num_frames=200)),
    Part(name="Qwen2.5-VL-3B", weight=5, run=partial(speed.run, shape="Qwen2.5-VL-3B", num_frames=200, num_videos=8)),
    Part(name="questions of Qwen2.5-VL-3B", weight=2, run=questions.run),
    Part(name="SmolVLM2-256M", weight=4, run=partial(speed.run, shape="SmolVLM2-256M", compares=True)),
    Part(name="SmolVLM2-500M", weight=4, run=partial(speed.run, shape="SmolVLM2-500M")),
    Part(name="4 hours of a stream", weight=4, run=speed.stream_for_hours),
    Part(name="NVDEC", weight=3, run=checks.compare_decoding),
)


@dataclass(slots=True, kw_only=True)
class Result:
    """The figures of a part, and how it ended."""

    name: str
    state: State = "not run"
    reason: str = ""
    seconds: float = 0.0
    figures: list[Figure] = field(default_factory=list)


def choose_start() -> str:
    """Return how parts start: ``fork``, which spares the imports, or ``spawn`` if an import has touched CUDA."""
    process = multiprocessing.get_context("fork").Process(target=_check_fork)
    process.start()
    process.join(FORK_S)
    process.kill()  # it hangs if it has not ended
    process.join()
    return "spawn" if process.exitcode else "fork"


def _check_fork() -> None:
    """Exit with 1 if CUDA cannot be used after this fork."""
    sys.exit(torch.cuda._is_in_bad_fork())


def run_part(part: Part, settings: Settings, *, limit_s: float, start: str = "fork") -> Result:
    """Run a part in a process that ``start`` begins, for at most ``limit_s`` seconds."""
    result, began_s = Result(name=part.name), time.monotonic()
    if limit_s <= 0:
        result.reason = "the time was up"
        return result
    context: Any = multiprocessing.get_context(start)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(part, settings, sender))
    process.start()
    sender.close()
    result.state, result.reason = "stopped", f"after {limit_s:.0f} s, its share of the time"
    while receiver.poll(max(0.0, began_s + limit_s - time.monotonic())):
        try:
            message = receiver.recv()
        except EOFError:
            process.join()
            result.state, result.reason = "failed", f"its process ended with {process.exitcode}"
            break
        if isinstance(message, Figure):
            result.figures.append(message)
        else:
            result.state, result.reason = message
            break
    if result.state == "stopped" and process.pid is not None:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
    process.join()
    result.seconds = time.monotonic() - began_s
    return result


def _run(part: Part, settings: Settings, sender: Connection) -> None:
    """Send the figures of a part, and its end."""
    os.setsid()
    state, reason = "done", ""
    try:
        for figure in part.run(settings):
            sender.send(figure)
    except SkippedError as error:
        state, reason = "skipped", str(error)
    except Exception as error:
        traceback.print_exc()
        state, reason = "failed", f"{type(error).__name__}: {error}"
    sender.send((state, reason))


def write(folder: Path, results: Sequence[Result], about: dict[str, Any]) -> None:
    """Write ``gpu.json`` and ``gpu.md``."""
    content = {**about, "parts": [asdict(result) for result in results]}
    (folder / "gpu.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "gpu.md").write_text(to_markdown(results, about), encoding="utf-8")


def to_markdown(results: Sequence[Result], about: dict[str, Any]) -> str:
    """Return a table of the parts, and one of the figures of each part that has some."""
    lines = ["# Benchmark of a GPU", "", ", ".join(f"{name}: {value}" for name, value in about.items()), ""]
    lines += ["| part | state | seconds | reason |", "|---|---|---|---|"]
    lines += [f"| {r.name} | {r.state} | {r.seconds:.1f} | {_cell(r.reason)} |" for r in results]
    for result in results:
        if result.figures:
            lines += ["", f"## {result.name}", "", "| figure | value | goal | note |", "|---|---|---|---|"]
            lines += [f"| {_cell(f.name)} | {format_value(f)} | {f.goal} | {_cell(f.note)} |" for f in result.figures]
    return "\n".join(lines) + "\n"


def format_value(figure: Figure) -> str:
    """Return the value of a figure with its unit, such as ``3.21 s``."""
    if isinstance(figure.value, str):
        return _cell(figure.value)
    digits = 0 if figure.value.is_integer() or figure.value >= 1000 else 2
    return f"{figure.value:,.{digits}f} {figure.unit}".strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
