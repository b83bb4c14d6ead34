"""The server that workers are forked from, which has imported their libraries."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing import forkserver
from multiprocessing.process import parent_process
from typing import Final, NoReturn

CONTEXT: Final = multiprocessing.get_context("forkserver")
"""Start method of processes."""
SHUTDOWN_TIMEOUT_S: Final = 10.0
"""Time that a process has to end by itself."""
_LIBRARIES: Final = "eval.runs.pools.worker_libraries"


def start_server() -> None:
    """Start the server, unless it runs."""
    CONTEXT.set_forkserver_preload([_LIBRARIES])
    forkserver.ensure_running()


def follow_parent() -> None:
    """Make this process end after its parent, however that ends, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def describe_exit(exit_code: int | None) -> str:
    """Return the exit code of a process, or the signal that ended it, in words."""
    if exit_code is not None and exit_code < 0:
        hint = "; out of memory, or killed by hand" if exit_code == -signal.SIGKILL else ""
        return f"signal {-exit_code} ({signal.strsignal(-exit_code)}{hint})"
    return f"exit code {exit_code}"


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
