"""``python -m stepscope.assets``: build and evaluate the bundled checkpoint and videos."""

import sys
from functools import partial

from stepscope.engine.cli.program import Command, Group, run_program

COMMANDS = {
    "checkpoint": Command(
        "train and write the checkpoint", "stepscope.assets.commands:BuildOptions", "stepscope.assets.commands:build"
    ),
    "twin": Command(
        "train the twin that decides by a silent token",
        "stepscope.assets.commands:TwinOptions",
        "stepscope.assets.commands:build_twin",
    ),
    "answers": Command(
        "train the adapter that answers questions",
        "stepscope.assets.commands:AnswerOptions",
        "stepscope.assets.commands:build_answers",
    ),
    "videos": Command(
        "draw the bundled videos and all manifests",
        "stepscope.assets.commands:DrawOptions",
        "stepscope.assets.commands:draw",
    ),
    "lesson": Command(
        "draw the splits of the worked example of training",
        "stepscope.assets.commands:LessonOptions",
        "stepscope.assets.commands:lesson",
    ),
    "run": Command(
        "stream the test videos into the bundled run",
        "stepscope.assets.commands:DemoRunOptions",
        "stepscope.assets.commands:run",
    ),
    "score": Command(
        "score a checkpoint on new scenes",
        "stepscope.assets.commands:ScoreOptions",
        "stepscope.assets.commands:print_scores",
    ),
}
main = partial(run_program, Group("The bundled checkpoint and videos.", COMMANDS), prog="python -m stepscope.assets")

if __name__ == "__main__":
    sys.exit(main())
