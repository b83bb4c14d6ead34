"""Runs programs of a checkpoint so that they cannot stop this one: its chat template, and the rules of its tokenizer.

A template runs in a process of its own, which is killed at a limit.
"""

import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeVar

from stepscope.engine.errors import CheckpointError, first_line

T = TypeVar("T")

MAX_S: Final = 10.0
MAX_BYTES: Final = 2**24
"""Longest text; a template repeats its messages, which have 2**17 characters each."""
MAX_MEMORY: Final = 2**30
"""Memory beyond that of this process, in bytes."""


def run_bounded(write: Callable[[], str]) -> str:
    """Return the text that a function returns in a forked process, which is killed when it exceeds a limit.

    A thread could not be stopped, nor could Python count the steps of one long operation, such as ``9 ** 9 ** 9``.
    Without ``fork``, as on Windows, the function runs here, without limits.

    Raises ``ValueError`` with the first line of any exception of the function, and for a limit.
    """
    if not hasattr(os, "fork"):
        return write()
    reader, writer = Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, whose locks the child does not take
        child = os.fork()  # multiprocessing would refuse it within a worker
    if child == 0:
        _answer(write, writer)
    writer.close()
    with reader:
        try:
            content = reader.recv_bytes(MAX_BYTES + 1) if reader.poll(MAX_S) else b""
            problem = f"it takes more than {MAX_S:g} s"
        except EOFError:  # it was killed
            content, problem = b"", f"it needs more than {MAX_MEMORY // 2**30} GiB"
        except OSError:  # the pipe refuses the message
            content, problem = b"", f"its text is longer than {MAX_BYTES // 2**20} MiB"
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
    if content[:1] != b"+":
        raise ValueError(content[1:].decode(errors="replace") or problem)
    return content[1:].decode(errors="surrogatepass")


def _answer(write: Callable[[], str], writer: Connection) -> None:
    """Write the text, or after ``-`` the error, to a pipe, and end this process."""
    try:
        try:
            _limit_memory()
            content = b"+" + write().encode(errors="surrogatepass")
        except BaseException as error:  # a template is a program, which can fail with any error
            content = b"-" + first_line(error).encode(errors="replace")
        writer.send_bytes(content)
    finally:
        os._exit(0)


def _limit_memory() -> None:
    if sys.platform == "linux":
        import resource  # noqa: PLC0415 - other systems lack it

        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = used + MAX_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


class _WithoutPanics:
    """A tokenizer whose library may fail with a panic, as it does for a rule that backtracks without an end."""

    def _encode_plus(self, *inputs: Any, **options: Any) -> Any:
        try:
            return super()._encode_plus(*inputs, **options)  # type: ignore[misc]
        except BaseException as error:  # a panic is no Exception, so that threads and requests would never end
            if type(error).__name__ != "PanicException":
                raise
            reason = first_line(error)
            raise CheckpointError(f"the rules of tokenizer.json fail for a text: {reason}; correct them") from error


def forbid_panics(tokenizer: T) -> T:
    """Return a tokenizer of transformers that raises ``CheckpointError`` in place of a panic of its library."""
    kind = type(tokenizer)
    tokenizer.__class__ = type(kind.__name__, (_WithoutPanics, kind), {"__module__": kind.__module__})
    return tokenizer
