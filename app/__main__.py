"""``python -m stepscope.app``: the page, which ``stepscope demo`` serves too."""

import sys
from functools import partial

from stepscope.engine.cli.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from stepscope.engine.cli.program import Command, run_program

DEMO = Command("serve the page", "app.cli.options:PageOptions", "app.cli.serve:serve")
main = partial(run_program, DEMO, prog="python -m stepscope.app")

if __name__ == "__main__":
    sys.exit(main())
