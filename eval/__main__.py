"""``python -m eval``: the commands of the evaluation, which are commands of ``stepscope`` too.

The finished videos of a stopped run or sweep are kept, and ``--resume`` runs the rest; an import must be repeated.
"""

import sys
from functools import partial

from engine.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from engine.cli import Command, Group, run_program

COMMANDS = {
    "run": Command("stream and score a split", "eval.options:RunOptions", "eval.commands:run"),
    "sweep": Command("score a split over a grid of thresholds", "eval.options:SweepOptions", "eval.commands:sweep"),
    "import": Command("import results of other systems", "eval.options:ImportOptions", "eval.commands:import_files"),
    "compare": Command("compare two runs of a split", "eval.options:CompareOptions", "eval.finished_runs:compare"),
    "score": Command("score a run folder again", "eval.options:RescoreOptions", "eval.finished_runs:score"),
    "metrics": Command(
        "print the definitions of all scores", "eval.options:MetricsOptions", "eval.commands:print_metrics"
    ),
}
main = partial(run_program, Group("The evaluation.", COMMANDS), prog="python -m eval")

if __name__ == "__main__":
    sys.exit(main())
