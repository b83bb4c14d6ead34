"""Entry point of ``stepscope``: Ctrl-C is handled before the libraries, whose import takes seconds, are imported."""

from importlib import import_module

from engine.cli.interrupts import exit_on_interrupt


def main() -> int:
    """Run the command of the process; return the exit code."""
    exit_on_interrupt()
    code: int = import_module("app.cli.stepscope").main()
    return code
