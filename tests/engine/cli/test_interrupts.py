"""Ctrl-C and SIGTERM at any time: one line, the exit code of a shell, and no temporary folder stays."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from stepscope.engine.cli.interrupts import exit_code, handle_interrupts


@pytest.mark.parametrize(
    ("words", "number", "code"),
    [
        ("stepscope.engine run", signal.SIGINT, 130),
        ("stepscope metrics", signal.SIGTERM, 143),
    ],
)
def test_a_signal_while_libraries_are_imported_is_one_line(words: str, number: signal.Signals, code: int) -> None:
    program, *arguments = words.split()
    start = (
        ["-c", "import stepscope.app.cli.entry; stepscope.app.cli.entry.main()"]
        if program == "stepscope"
        else ["-m", program]
    )
    command = [sys.executable, "-X", "importtime", *start, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        last = "stepscope.app.cli.entry" if program == "stepscope" else "stepscope.engine.cli.interrupts"
        assert any(line.endswith(f"{last}\n") for line in lines)
        next(lines), next(lines)  # the program has begun to import the next one
        process.send_signal(number)
        rest = [line for line in lines if not line.startswith("import time:")]
    assert (process.returncode, rest) == (code, ["stopped; nothing was written\n"])


def test_sigterm_ends_a_block_as_ctrl_c_does_even_when_a_library_takes_the_exception() -> None:
    before = signal.getsignal(signal.SIGTERM)
    for taken in (ValueError, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt) as caught, handle_interrupts(), suppress(taken):
            os.kill(os.getpid(), signal.SIGTERM)
        assert exit_code(caught.value) == 143
    assert exit_code(KeyboardInterrupt()) == 130
    assert signal.getsignal(signal.SIGTERM) is before
