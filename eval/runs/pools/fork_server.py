"""Loaded by the server that forks the worker processes, which otherwise runs nothing.

A program that ends while it asks for a process closes the connection. The server then ends too, without a traceback.
"""

import sys
from types import TracebackType


def _report(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, place)


sys.excepthook = _report
