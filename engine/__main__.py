"""``python -m stepscope.engine``: the commands of the engine, which are commands of ``stepscope`` too."""

import sys
from functools import partial

from stepscope.engine.cli.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from stepscope.engine.cli.program import Command, Group, run_program

COMMANDS = {
    "run": Command("stream one video", "stepscope.engine.cli.options:RunOptions", "stepscope.engine.cli.commands:run"),
    "encode": Command(
        "keep the features of a video",
        "stepscope.engine.cli.options:EncodeOptions",
        "stepscope.engine.cli.commands:encode_video",
    ),
    "presets": Command(
        "list the settings of published assistants",
        "stepscope.engine.cli.presets:PresetsOptions",
        "stepscope.engine.cli.presets:print_presets",
    ),
    "bench": Command(
        "measure the streaming speed",
        "stepscope.engine.cli.options:BenchOptions",
        "stepscope.engine.cli.bench_command:bench",
    ),
}
main = partial(run_program, Group("The streaming engine.", COMMANDS), prog="python -m stepscope.engine")

if __name__ == "__main__":
    sys.exit(main())
