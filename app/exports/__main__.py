"""``python -m stepscope.app.exports``: exports, which are ``stepscope export`` too."""

import sys
from functools import partial

from stepscope.engine.cli.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from stepscope.engine.cli.program import Command, Group, run_program

EXPORTS = Group(
    "export and import reviews",
    {
        "write": Command(
            "write a reviewed run", "stepscope.app.exports.options:WriteOptions", "stepscope.app.exports.commands:write"
        ),
        "traces": Command(
            "write one row per frame of a run",
            "stepscope.app.exports.options:TracesOptions",
            "stepscope.app.exports.commands:traces",
        ),
        "split": Command(
            "write a split with corrected references",
            "stepscope.app.exports.options:SplitOptions",
            "stepscope.app.exports.commands:split",
        ),
        "import": Command(
            "store the changes of ELAN documents",
            "stepscope.app.exports.options:ImportOptions",
            "stepscope.app.exports.commands:read_eaf",
        ),
    },
)
REVIEWS = Group(
    "share and compare reviews",
    {
        "assign": Command(
            "assign videos to reviewers",
            "stepscope.app.exports.options:AssignOptions",
            "stepscope.app.exports.commands:assign",
        ),
        "agreement": Command(
            "print the agreement of reviewers",
            "stepscope.app.exports.options:AgreementOptions",
            "stepscope.app.exports.commands:agreement",
        ),
    },
)
main = partial(run_program, EXPORTS, prog="python -m stepscope.app.exports")

if __name__ == "__main__":
    sys.exit(main())
