"""``python -m stepscope.assets``: build and evaluate the bundled checkpoint and videos."""

import sys
from functools import partial

from stepscope.engine.cli.program import Command, Group, run_program

COMMANDS = {
    "checkpoint": Command(
        "train and write the checkpoint",
        "assets.training.build:BuildOptions",
        "assets.training.build:build_checkpoint",
    ),
    "twin": Command(
        "train the twin that decides by a silent token",
        "assets.training.twin:TwinOptions",
        "assets.training.twin:train_twin",
    ),
    "answers": Command(
        "train the adapter that answers questions",
        "assets.training.twin:AnswerOptions",
        "assets.training.twin:train_answers",
    ),
    "videos": Command(
        "draw the bundled videos and all manifests", "assets.commands:DrawOptions", "assets.commands:draw"
    ),
    "lesson": Command(
        "draw the splits of the worked example of training", "assets.commands:LessonOptions", "assets.commands:lesson"
    ),
    "run": Command(
        "stream the test videos into the bundled run", "assets.commands:DemoRunOptions", "assets.commands:run"
    ),
    "score": Command(
        "score a checkpoint on new scenes", "assets.commands:ScoreOptions", "assets.commands:print_scores"
    ),
}
main = partial(run_program, Group("The bundled checkpoint and videos.", COMMANDS), prog="python -m stepscope.assets")

if __name__ == "__main__":
    sys.exit(main())
