"""Entry point of ``stepscope``: Ctrl-C is handled before the libraries, whose import takes seconds, are imported."""

from engine.cli.interrupts import exit_on_interrupt
from engine.imports import import_uncollected


def main() -> int:
    """Run the command of the process; return the exit code."""
    exit_on_interrupt()
    code: int = import_uncollected("app.cli.stepscope").main()
    return code
