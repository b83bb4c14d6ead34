"""Handling of Ctrl-C and SIGTERM: one line, exit code 130 or 143, and no temporary folder is left.

``exit_on_interrupt`` covers the seconds in which a program imports its libraries, ``handle_interrupts`` the rest.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


def exit_on_interrupt() -> None:
    """End the process at once on SIGINT or SIGTERM. Call it at program start, before anything needs cleanup."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit)


@contextmanager
def handle_interrupts() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` on SIGINT, and ``KeyboardInterrupt("SIGTERM")`` on SIGTERM, while the block lasts."""
    is_stopped = False

    def stop(*_: object) -> NoReturn:
        nonlocal is_stopped
        is_stopped = True
        raise KeyboardInterrupt("SIGTERM")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
        if is_stopped:  # Gradio ends its server on KeyboardInterrupt and does not raise it again
            raise KeyboardInterrupt("SIGTERM")
    except KeyboardInterrupt as interrupt:
        if is_stopped and not interrupt.args:  # Ray replaces our exception with its own
            raise KeyboardInterrupt("SIGTERM") from interrupt
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """Defer SIGINT and SIGTERM while the block lasts; the yielded function raises the first one that came.

    A second signal interrupts at once. Outside the main thread nothing is deferred.
    """
    pending: list[KeyboardInterrupt] = []

    def note(number: int, _: object) -> None:
        interrupt = KeyboardInterrupt("SIGTERM") if number == signal.SIGTERM else KeyboardInterrupt()
        if pending:
            raise interrupt
        pending.append(interrupt)

    def check() -> None:
        if pending:
            raise pending[0]

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return 143 for SIGTERM and 130 for Ctrl-C."""
    return 143 if interrupt.args else 130


def _exit(number: int, _: object) -> NoReturn:
    sys.stderr.write("stopped; nothing was written\n")
    sys.stderr.flush()
    os._exit(128 + number)
