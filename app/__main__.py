"""``python -m app``: the page, which ``stepscope demo`` serves too."""

import sys
from functools import partial

from engine.cli.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from engine.cli.program import Command, run_program

DEMO = Command("serve the page", "app.cli.options:PageOptions", "app.cli.serve:serve")
main = partial(run_program, DEMO, prog="python -m app")

if __name__ == "__main__":
    sys.exit(main())
