"""``python -m stepscope.eval``: the commands of the evaluation, which are commands of ``stepscope`` too.

The finished videos of a stopped run or sweep are kept, and ``--resume`` runs the rest; an import must be repeated.
"""

import sys
from functools import partial

from stepscope.engine.cli.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from stepscope.engine.cli.program import Command, Group, run_program

COMMANDS = {
    "run": Command(
        "stream and score a split", "stepscope.eval.cli.options:RunOptions", "stepscope.eval.cli.run_command:run"
    ),
    "train": Command(
        "train on a split", "stepscope.eval.training.options:TrainOptions", "stepscope.eval.cli.train_command:train"
    ),
    "sweep": Command(
        "score a split over a grid of thresholds",
        "stepscope.eval.cli.options:SweepOptions",
        "stepscope.eval.cli.sweep_command:sweep",
    ),
    "import": Command(
        "import results of other systems",
        "stepscope.eval.cli.options:ImportOptions",
        "stepscope.eval.cli.finished_runs:import_files",
    ),
    "compare": Command(
        "compare two runs of a split",
        "stepscope.eval.cli.options:CompareOptions",
        "stepscope.eval.cli.finished_runs:compare",
    ),
    "leaderboard": Command(
        "tabulate runs of a split",
        "stepscope.eval.cli.options:LeaderboardOptions",
        "stepscope.eval.cli.leaderboard:leaderboard",
    ),
    "protocols": Command(
        "score runs under published protocols",
        "stepscope.eval.cli.options:ProtocolsOptions",
        "stepscope.eval.cli.protocols:protocols",
    ),
    "search": Command(
        "find moments of runs by words, failures and numbers",
        "stepscope.eval.cli.options:SearchOptions",
        "stepscope.eval.cli.search:search_runs",
    ),
    "runs": Command(
        "list the runs of a folder with their notes",
        "stepscope.eval.cli.options:RunsOptions",
        "stepscope.eval.cli.run_list:print_runs",
    ),
    "note": Command(
        "write the notes of a run", "stepscope.eval.cli.options:NoteOptions", "stepscope.eval.cli.run_list:write_note"
    ),
    "score": Command(
        "score a run folder again",
        "stepscope.eval.cli.options:RescoreOptions",
        "stepscope.eval.cli.finished_runs:score",
    ),
    "schema": Command(
        "print the JSON Schema of run folders",
        "stepscope.eval.cli.options:SchemaOptions",
        "stepscope.eval.cli.printing:print_schema",
    ),
    "live": Command(
        "stream a camera, a URL or a file live",
        "stepscope.eval.cli.options:LiveCommandOptions",
        "stepscope.eval.cli.live:live",
    ),
    "recover": Command(
        "complete the recording of a killed session",
        "stepscope.eval.cli.options:RecoverOptions",
        "stepscope.eval.cli.live:recover",
    ),
    "metrics": Command(
        "print the definitions of all scores",
        "stepscope.eval.cli.options:MetricsOptions",
        "stepscope.eval.cli.printing:print_metrics",
    ),
}
main = partial(run_program, Group("The evaluation.", COMMANDS), prog="python -m stepscope.eval")

if __name__ == "__main__":
    sys.exit(main())
