"""``python -m engine``: the commands of the engine, which are commands of ``stepscope`` too."""

import sys
from functools import partial

from engine.interrupts import exit_on_interrupt

if __name__ == "__main__":  # before the libraries, whose import takes seconds
    exit_on_interrupt()

from engine.cli import Command, Group, run_program

COMMANDS = {
    "run": Command("stream one video", "engine.options:RunOptions", "engine.commands:run"),
    "encode": Command("keep the features of a video", "engine.options:EncodeOptions", "engine.commands:encode_video"),
    "train": Command("fine-tune on annotated clips", "engine.options:TrainOptions", "engine.commands:fine_tune"),
    "bench": Command("measure the streaming speed", "engine.options:BenchOptions", "engine.commands:bench"),
}
main = partial(run_program, Group("The streaming engine.", COMMANDS), prog="python -m engine")

if __name__ == "__main__":
    sys.exit(main())
