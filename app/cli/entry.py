"""Entry point of ``stepscope``: Ctrl-C is handled before the libraries, whose import takes seconds, are imported."""

from stepscope.engine.cli.interrupts import exit_on_interrupt
from stepscope.engine.imports import import_uncollected


def main() -> int:
    """Run the command of the process; return the exit code."""
    exit_on_interrupt()
    code: int = import_uncollected("stepscope.app.cli.stepscope").main()
    return code
