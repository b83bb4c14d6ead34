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
    "run": Command("stream and score a split", "eval.cli.options:RunOptions", "eval.cli.run_command:run"),
    "train": Command("train on a split", "eval.training.options:TrainOptions", "eval.cli.train_command:train"),
    "sweep": Command(
        "score a split over a grid of thresholds", "eval.cli.options:SweepOptions", "eval.cli.sweep_command:sweep"
    ),
    "import": Command(
        "import results of other systems", "eval.cli.options:ImportOptions", "eval.cli.finished_runs:import_files"
    ),
    "compare": Command(
        "compare two runs of a split", "eval.cli.options:CompareOptions", "eval.cli.finished_runs:compare"
    ),
    "leaderboard": Command(
        "tabulate runs of a split", "eval.cli.options:LeaderboardOptions", "eval.cli.run_tables:leaderboard"
    ),
    "protocols": Command(
        "score runs under published protocols", "eval.cli.options:ProtocolsOptions", "eval.cli.run_tables:protocols"
    ),
    "search": Command(
        "find moments of runs by words, failures and numbers",
        "eval.cli.options:SearchOptions",
        "eval.cli.run_tables:search_runs",
    ),
    "runs": Command(
        "list the runs of a folder with their notes", "eval.cli.options:RunsOptions", "eval.cli.run_tables:print_runs"
    ),
    "note": Command("write the notes of a run", "eval.cli.options:NoteOptions", "eval.cli.run_tables:write_note"),
    "score": Command("score a run folder again", "eval.cli.options:RescoreOptions", "eval.cli.finished_runs:score"),
    "schema": Command(
        "print the JSON Schema of run folders", "eval.cli.options:SchemaOptions", "eval.cli.run_tables:print_schema"
    ),
    "live": Command(
        "stream a camera, a URL or a file live", "eval.cli.options:LiveCommandOptions", "eval.cli.live:live"
    ),
    "recover": Command(
        "complete the recording of a killed session", "eval.cli.options:RecoverOptions", "eval.cli.live:recover"
    ),
    "metrics": Command(
        "print the definitions of all scores", "eval.cli.options:MetricsOptions", "eval.cli.run_tables:print_metrics"
    ),
}
main = partial(run_program, Group("The evaluation.", COMMANDS), prog="python -m stepscope.eval")

if __name__ == "__main__":
    sys.exit(main())
