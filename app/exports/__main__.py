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
        "write": Command("write a reviewed run", "app.exports.options:WriteOptions", "app.exports.commands:write"),
        "traces": Command(
            "write one row per frame of a run", "app.exports.options:TracesOptions", "app.exports.commands:traces"
        ),
        "split": Command(
            "write a split with corrected references", "app.exports.options:SplitOptions", "app.exports.commands:split"
        ),
        "import": Command(
            "store the changes of ELAN documents", "app.exports.options:ImportOptions", "app.exports.commands:read_eaf"
        ),
    },
)
REVIEWS = Group(
    "share and compare reviews",
    {
        "assign": Command(
            "assign videos to reviewers", "app.exports.options:AssignOptions", "app.exports.commands:assign"
        ),
        "agreement": Command(
            "print the agreement of reviewers", "app.exports.options:AgreementOptions", "app.exports.commands:agreement"
        ),
    },
)
main = partial(run_program, EXPORTS, prog="python -m stepscope.app.exports")

if __name__ == "__main__":
    sys.exit(main())
