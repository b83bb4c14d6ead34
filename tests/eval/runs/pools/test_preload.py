"""The server that workers are forked from has imported their libraries."""

import gc
import sys
from multiprocessing.connection import Connection
from typing import Any

from eval.runs.pools.preload import CONTEXT, start_server


def test_workers_have_their_libraries_when_they_begin_and_collect_garbage() -> None:
    start_server()
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_report, args=(theirs,))
    process.start()
    assert ours.recv() == (True, True, True)
    process.join()


def _report(connection: "Connection[Any, Any]") -> None:
    connection.send(("eval.runs.pools.worker" in sys.modules, gc.isenabled(), gc.get_freeze_count() > 100_000))
