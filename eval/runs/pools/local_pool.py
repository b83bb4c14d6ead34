"""Worker processes on this machine, one per device; a back end of ``eval.runs.pools.scheduler``.

The processes end with their parent, however it ends, and leave no partial files unless they receive SIGKILL.
They are forked from a server that has run nothing: a program with threads, such as the page, cannot be forked safely.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess, parent_process
from typing import Final, NoReturn

from stepscope.engine.imports import import_uncollected
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.pools.scheduler import MAX_STARTUP_FAILURES, Backend, WorkerEvent, WorkerExited
from stepscope.eval.runs.worker_messages import WorkerConfig, WorkerError, WorkerSpec

SHUTDOWN_TIMEOUT_S: Final = 10.0
"""Time that a process has to end by itself."""
_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([])


def make_process_pool(worker_config: WorkerConfig, worker_specs: Sequence[WorkerSpec]) -> Backend:
    """Return a back end with one process per ``WorkerSpec``."""
    return _ProcessPool(worker_config, worker_specs)


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
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
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


def _run_worker(connection: Connection, worker_config: WorkerConfig, spec: WorkerSpec) -> None:
    """Load the checkpoint, then run the samples received until the parent closes the pipe; a process's target."""
    _follow_parent()
    module = import_uncollected(worker_config.worker_module)  # takes seconds, and the leading process need not

    def receive(*, should_wait: bool) -> Sample | None:
        if not should_wait and not connection.poll():
            return None
        try:
            sample: Sample = connection.recv()
        except ConnectionResetError as error:
            raise EOFError from error
        return sample

    worker = module.Worker(worker_config, spec)
    event: WorkerEvent = worker.load()
    with suppress(BrokenPipeError, ConnectionResetError):  # the parent has closed its end
        connection.send(event)
        if not isinstance(event, WorkerError):
            for event in worker.run(receive):
                connection.send(event)


def _follow_parent() -> None:
    """Make this process end after its parent, however that ends, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_on_signal(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _exit_with_parent() -> None:
    """End this process after its parent has ended, with the clean-up that SIGTERM starts."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_TIMEOUT_S)
    os._exit(1)


def _describe_exit(exit_code: int | None) -> str:
    """Return the exit code of a process, or the signal that ended it, in words."""
    if exit_code is not None and exit_code < 0:
        hint = "; out of memory, or killed by hand" if exit_code == -signal.SIGKILL else ""
        return f"signal {-exit_code} ({signal.strsignal(-exit_code)}{hint})"
    return f"exit code {exit_code}"
