"""The server that workers are forked from: when it is started, and what it has imported."""

import gc
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import pytest

from engine.cli.program import run_program
from eval.__main__ import COMMANDS
from eval.runs.pools import preload
from eval.runs.pools.preload import CONTEXT, start_server, start_server_early


@pytest.mark.parametrize(
    ("arguments", "is_started"),
    [
        (["split.json", "--out", "run"], True),
        (["split.json", "--devices", "cpu:2"], True),
        (["--help"], False),
        (["split.json", "-h"], False),
        (["split.json", "--devices", "ray"], False),
        (["split.json", "--devices=ray://host:10001"], False),
    ],
)
def test_the_server_is_started_early_where_workers_will_be_here(
    monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], is_started: bool
) -> None:
    started = list[bool]()
    monkeypatch.setattr(preload, "start_server", lambda: started.append(True))
    start_server_early(arguments)
    assert bool(started) == is_started


def test_the_server_is_started_before_the_options_are_parsed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preload, "start_server", lambda: sys.stderr.write("server\n"))
    assert run_program(COMMANDS["run"], ["--nonsense"], prog="eval run") == 2
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], len(lines)) == ("server", 2)
    assert lines[1].startswith("error: ")


def test_workers_have_their_libraries_when_they_begin_and_collect_garbage() -> None:
    start_server()
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_report, args=(theirs,))
    process.start()
    assert ours.recv() == (True, True, True)
    process.join()


def _report(connection: "Connection[Any, Any]") -> None:
    connection.send(("eval.runs.pools.worker" in sys.modules, gc.isenabled(), gc.get_freeze_count() > 100_000))
