"""``python -m stepscope.eval``: the commands of the evaluation, which are commands of ``stepscope`` too."""

import sys
from functools import partial

from stepscope.engine.cli.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from stepscope.engine.cli.program import Command, Group, run_program


def _command(summary: str, options: str, function: str) -> Command:
    return Command(summary, f"eval.{options}", f"eval.cli.{function}")


COMMANDS = {
    "run": _command("stream and score a split", "cli.options:EvalOptions", "run_command:run"),
    "annotations": _command(
        "make a split from annotated segments", "datasets.options:AnnotationsOptions", "annotations_command:annotations"
    ),
    "train": _command("train on a split", "training.options:TrainOptions", "train_command:train"),
    "sweep": _command("score a split over a grid of thresholds", "cli.options:SweepOptions", "sweep_command:sweep"),
    "explain": _command("find why a run failed", "cli.options:ExplainOptions", "explain_command:explain"),
    "import": _command("import results of other systems", "cli.options:ImportRunOptions", "finished_runs:import_files"),
    "compare": _command("compare two runs of a split", "cli.options:CompareOptions", "finished_runs:compare"),
    "leaderboard": _command("tabulate runs of a split", "cli.options:LeaderboardOptions", "run_tables:leaderboard"),
    "protocols": _command(
        "score runs under published protocols", "cli.options:ProtocolsOptions", "run_tables:protocols"
    ),
    "search": _command(
        "find moments of runs by words, failures and numbers", "cli.options:SearchOptions", "run_tables:search_runs"
    ),
    "runs": _command("list the runs of a folder with their notes", "cli.options:RunsOptions", "run_tables:print_runs"),
    "note": _command("write the notes of a run", "cli.options:NoteOptions", "run_tables:write_note"),
    "score": _command("score a run folder again", "cli.options:RescoreOptions", "finished_runs:score"),
    "schema": _command("print the JSON Schema of run folders", "cli.options:SchemaOptions", "run_tables:print_schema"),
    "bench": _command("measure the streaming speed", "cli.bench:BenchOptions", "bench:bench"),
    "live": _command("stream a camera, a URL or a file live", "cli.options:LiveCommandOptions", "live:live"),
    "recover": _command("complete the recording of a killed session", "cli.options:RecoverOptions", "live:recover"),
    "metrics": _command(
        "print the definitions of all scores", "cli.options:MetricsOptions", "run_tables:print_metrics"
    ),
}
main = partial(run_program, Group("The evaluation.", COMMANDS), prog="python -m stepscope.eval")

if __name__ == "__main__":
    sys.exit(main())
