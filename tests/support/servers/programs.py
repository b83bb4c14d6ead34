"""Test programs that need the page's packages: one process imports them once and forks for each start.

``python -m tests.support.servers.programs`` is that process. It reads JSON lines, ``{"module", "options", "log"}``,
from stdin and writes the process id. The program runs as ``python -m module options`` would; its output is in the log.
"""

import atexit
import faulthandler
import gc
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

STARTED: "list[Program]" = []
"""All started programs, for reports of failed tests."""
LAST_WORDS = 12_000
WORKER = "stepscope.eval.runs.pools.worker"
"""Imports of the processes of a batch, which take seconds: their server loads them once."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that was started."""

    pid: int
    log: Path

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def end(self, how: signal.Signals = signal.SIGTERM, *, timeout_s: float = 120.0) -> None:
        """Send a signal and wait for the exit. Raises ``TimeoutError``."""
        if self.is_running:
            os.kill(self.pid, how)
        until = time.monotonic() + timeout_s
        while self.is_running:
            if time.monotonic() > until:
                raise TimeoutError(f"process {self.pid} did not end: {self.output()}")
            time.sleep(0.02)

    def output(self) -> str:
        """Return its output so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def dump_stacks(self) -> str:
        """Make it print the stacks of its threads; return the end of its output, after at most two seconds."""
        before, until = len(self.output()), time.monotonic() + 2
        os.kill(self.pid, signal.SIGUSR1)
        while len(self.output()) == before and time.monotonic() < until:
            time.sleep(0.1)
        return self.output()[-LAST_WORDS:]


def start(module: str, options: Sequence[str]) -> Program:
    """Start ``python -m module options``."""
    descriptor, log = tempfile.mkstemp(prefix="stepscope-program-", suffix=".log")
    os.close(descriptor)
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    parent = _parent(frozenset((environment | ONE_THREAD).items()))
    assert parent.stdin is not None
    assert parent.stdout is not None
    request = {"module": module, "options": [*options], "log": log}
    parent.stdin.write(json.dumps(request) + "\n")
    parent.stdin.flush()
    program = Program(pid=int(parent.stdout.readline()), log=Path(log))
    STARTED.append(program)
    return program


@cache
def _parent(environment: frozenset[tuple[str, str]]) -> "subprocess.Popen[str]":
    """Return the process that forks; it exits with this one.

    There is one per environment, because packages read environment variables on import.
    """
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.support.servers.programs"],
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(parent.communicate)  # the end of its input ends it
    return parent


def _wait_for_start() -> dict[str, Any]:
    """Fork for each line of stdin and return its request in the child; the parent exits at the end of stdin."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap children automatically
    gc.freeze()  # a child would copy all pages of the packages' objects when it ends, which takes seconds
    for line in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            request: dict[str, Any] = json.loads(line)
            return request
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
    sys.exit()


def _run() -> None:
    import stepscope.app.cli.serve  # noqa: F401, PLC0415 - loads the packages

    multiprocessing.set_forkserver_preload([WORKER])

    request = _wait_for_start()
    with open(os.devnull, "rb") as nothing, open(request["log"], "ab") as log:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    faulthandler.register(signal.SIGUSR1)
    sys.argv = [request["module"], *request["options"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run()
