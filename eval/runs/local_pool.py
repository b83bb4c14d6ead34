"""Worker processes on this machine, one per device; a back end of ``eval.runs.scheduler``.

The processes end with their parent, however it ends, and leave no partial files unless they receive SIGKILL.
They are forked from a server that has imported the libraries but run nothing, so a replacement starts at once.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, NoReturn

from engine.errors import EngineError
from eval.data.samples import Sample
from eval.runs.progress import WorkerStatus
from eval.runs.scheduler import (
    MAX_STARTUP_FAILURES,
    REPORT_INTERVAL_S,
    FramesDone,
    WorkerError,
    WorkerEvent,
    WorkerExited,
    WorkerReady,
    run_scheduler,
)
from eval.runs.worker import VideoResult, WorkerConfig, WorkerSpec, load_checkpoint, run_sample

_SHUTDOWN_TIMEOUT_S: Final = 10.0
_CONTEXT: Final = multiprocessing.get_context("forkserver")


def run_videos(
    samples: Sequence[Sample], worker_config: WorkerConfig, worker_specs: Sequence[WorkerSpec]
) -> Generator[VideoResult | tuple[WorkerStatus, ...]]:
    """Run all samples on processes of this machine; see ``run_scheduler``."""
    _CONTEXT.set_forkserver_preload([__name__])
    return run_scheduler(samples, _ProcessPool(worker_config, worker_specs[: len(samples)]))


@dataclass(frozen=True, slots=True, eq=False)
class _WorkerProcess:
    """A process with the parent's end of its pipe."""

    process: BaseProcess
    connection: Connection


class _ProcessPool:
    """Back end with one process per ``WorkerSpec``."""

    worker_kind = "process"

    def __init__(self, worker_config: WorkerConfig, worker_specs: Sequence[WorkerSpec]) -> None:
        self._config = worker_config
        self._slots = dict(zip(_make_names(worker_specs), worker_specs, strict=True))
        self._processes: dict[str, _WorkerProcess] = {}

    def slots(self) -> Mapping[str, WorkerSpec]:
        return self._slots

    def max_startup_failures(self, num_workers: int) -> int:
        return MAX_STARTUP_FAILURES

    def start_worker(self, name: str, spec: WorkerSpec) -> int | None:
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(
            target=_run_worker, args=(theirs, self._config, spec), name=f"stepscope {name}", daemon=True
        )
        process.start()
        theirs.close()
        self._processes[name] = _WorkerProcess(process, ours)
        return process.pid

    def dispatch(self, name: str, sample: Sample) -> None:
        try:
            self._processes[name].connection.send(sample)
        except OSError:
            return  # the process is dead; the next poll reads the end of its pipe

    def poll(self, timeout_s: float) -> Iterator[tuple[str, WorkerEvent]]:
        by_connection = {worker.connection: name for name, worker in self._processes.items()}
        for connection in wait(list(by_connection), timeout=timeout_s):
            assert isinstance(connection, Connection)
            name = by_connection[connection]
            try:
                event: WorkerEvent = connection.recv()
            except (EOFError, OSError):
                event = self._remove(name)
            yield name, event

    def shutdown(self) -> None:
        for worker in self._processes.values():
            worker.process.terminate()
            worker.connection.close()  # wakes a process that waits for a video
        deadline = time.monotonic() + _SHUTDOWN_TIMEOUT_S
        for worker in self._processes.values():
            worker.process.join(max(deadline - time.monotonic(), 0))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()

    def _remove(self, name: str) -> WorkerExited:
        worker = self._processes.pop(name)
        worker.process.join()
        worker.connection.close()
        return WorkerExited(reason=_describe_exit(worker.process.exitcode))


def _make_names(worker_specs: Sequence[WorkerSpec]) -> list[str]:
    """Return one name per worker: ``cuda:0`` for a device with one worker, else ``cpu 1``, ``cpu 2``."""
    devices = [spec.device for spec in worker_specs]
    numbers = Counter[str]()
    names = []
    for device in devices:
        numbers[device] += 1
        names.append(device if devices.count(device) == 1 else f"{device} {numbers[device]}")
    return names


def _describe_exit(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        hint = "; out of memory, or killed by hand" if exit_code == -signal.SIGKILL else ""
        return f"signal {-exit_code} ({signal.strsignal(-exit_code)}{hint})"
    return f"exit code {exit_code}"


def _run_worker(connection: Connection, worker_config: WorkerConfig, spec: WorkerSpec) -> None:
    """Load the checkpoint, then run each sample received until the parent closes the pipe; a process's target."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which then ends this process
    signal.signal(signal.SIGTERM, _exit_on_signal)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        checkpoint = load_checkpoint(worker_config, spec)
    except (EngineError, ValueError, OSError) as error:
        connection.send(WorkerError(reason=str(error), is_final=True))
        return
    reported_s = 0.0

    def report(num_done: int) -> None:
        nonlocal reported_s
        if time.monotonic() - reported_s > REPORT_INTERVAL_S:
            reported_s = time.monotonic()
            connection.send(FramesDone(num_done=num_done))

    connection.send(WorkerReady())
    try:
        while True:
            sample = connection.recv()
            connection.send(run_sample(checkpoint, worker_config, sample, device=spec.device, on_frame=report))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent has closed its end
    except OSError as error:
        connection.send(WorkerError(reason=str(error), is_final=True))
    except Exception as error:
        connection.send(WorkerError(reason=f"{type(error).__name__}: {error}", is_final=False))
        raise


def _exit_on_signal(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _exit_with_parent() -> None:
    """End this process after its parent has ended, with the clean-up that SIGTERM starts."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_SHUTDOWN_TIMEOUT_S)
    os._exit(1)
