"""The command ``stepscope``: all commands of the engine, the evaluation and the page."""

from functools import partial

from app.__main__ import DEMO
from app.exports.__main__ import EXPORTS
from engine.__main__ import COMMANDS as ENGINE
from engine.cli.program import Group, run_program
from eval.__main__ import COMMANDS as EVALUATION

STEPSCOPE = Group(
    "See why a streaming video assistant spoke, stayed silent, or lost track of a step.",
    {
        "demo": DEMO,
        **{name: ENGINE[name] for name in ("run", "encode", "train")},
        "eval": EVALUATION["run"],
        **{name: EVALUATION[name] for name in ("sweep", "compare", "score", "import")},
        "export": EXPORTS,
        "bench": ENGINE["bench"],
        "metrics": EVALUATION["metrics"],
    },
)
main = partial(run_program, STEPSCOPE, prog="stepscope")
