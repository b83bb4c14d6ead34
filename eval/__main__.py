"""``python -m eval``: the commands of the evaluation, which are commands of ``stepscope`` too.

The finished videos of a stopped run or sweep are kept, and ``--resume`` runs the rest; an import must be repeated.
"""

import sys
from functools import partial

from engine.cli.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from engine.cli.program import Command, Group, run_program

COMMANDS = {
    "run": Command("stream and score a split", "eval.cli.options:RunOptions", "eval.cli.commands:run"),
    "sweep": Command(
        "score a split over a grid of thresholds", "eval.cli.options:SweepOptions", "eval.cli.commands:sweep"
    ),
    "import": Command(
        "import results of other systems", "eval.cli.options:ImportOptions", "eval.cli.commands:import_files"
    ),
    "compare": Command(
        "compare two runs of a split", "eval.cli.options:CompareOptions", "eval.cli.finished_runs:compare"
    ),
    "score": Command("score a run folder again", "eval.cli.options:RescoreOptions", "eval.cli.finished_runs:score"),
    "metrics": Command(
        "print the definitions of all scores", "eval.cli.options:MetricsOptions", "eval.cli.commands:print_metrics"
    ),
}
main = partial(run_program, Group("The evaluation.", COMMANDS), prog="python -m eval")

if __name__ == "__main__":
    sys.exit(main())
