"""``python -m stepscope.engine``: the commands of the engine, which are commands of ``stepscope`` too."""

import sys
from functools import partial

from stepscope.engine.cli.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from stepscope.engine.cli.program import Command, Group, run_program

COMMANDS = {
    "run": Command("stream one video", "engine.cli.options:RunOptions", "engine.cli.commands:run"),
    "encode": Command(
        "keep the features of a video", "engine.cli.options:EncodeOptions", "engine.cli.commands:encode_video"
    ),
    "presets": Command(
        "list the settings of published assistants",
        "engine.cli.presets:PresetsOptions",
        "engine.cli.presets:print_presets",
    ),
    "check": Command(
        "compare a checkpoint with transformers", "engine.cli.check:CheckOptions", "engine.cli.check:check"
    ),
}
main = partial(run_program, Group("The streaming engine.", COMMANDS), prog="python -m stepscope.engine")

if __name__ == "__main__":
    sys.exit(main())
