"""The command ``stepscope``: all commands of the engine, the evaluation and the page."""

from functools import partial

from stepscope.app.__main__ import DEMO
from stepscope.engine.__main__ import COMMANDS as ENGINE
from stepscope.engine.cli.program import Command, Group, run_program
from stepscope.eval.__main__ import COMMANDS as EVALUATION

EXPORTS = Group(
    "export and import reviews",
    {
        "write": Command("write a reviewed run", "app.exports.options:WriteOptions", "app.exports.commands:write"),
        "traces": Command(
            "write one row per frame of a run", "app.exports.options:TracesOptions", "app.exports.commands:traces"
        ),
        "split": Command(
            "write a split with corrected references", "app.exports.options:SplitOptions", "app.exports.commands:split"
        ),
        "import": Command(
            "store the changes of ELAN documents", "app.exports.options:ImportOptions", "app.exports.commands:read_eaf"
        ),
    },
)
REVIEWS = Group(
    "share and compare reviews",
    {
        "assign": Command(
            "assign videos to reviewers", "app.exports.options:AssignOptions", "app.exports.commands:assign"
        ),
        "agreement": Command(
            "print the agreement of reviewers", "app.exports.options:AgreementOptions", "app.exports.commands:agreement"
        ),
        "prune": Command(
            "set actions aside, or apply them again", "app.exports.options:PruneOptions", "app.exports.commands:prune"
        ),
    },
)
STEPSCOPE = Group(
    "See why a streaming video assistant spoke, stayed silent, or lost track of a step.",
    {
        "demo": DEMO,
        "run": Command("stream one video", "eval.served.options:RunVideoOptions", "eval.served.commands:run_video"),
        "encode": ENGINE["encode"],
        "live": EVALUATION["live"],
        "recover": EVALUATION["recover"],
        "annotations": EVALUATION["annotations"],
        "dialogues": Command(
            "write the dialogues of annotated videos, or check some",
            "eval.dialogues.commands:DialoguesOptions",
            "eval.dialogues.commands:write_dialogues",
        ),
        "train": EVALUATION["train"],
        "eval": EVALUATION["run"],
        **{
            name: EVALUATION[name]
            for name in (
                "sweep",
                "explain",
                "compare",
                "leaderboard",
                "protocols",
                "search",
                "runs",
                "note",
                "score",
                "import",
            )
        },
        "export": EXPORTS,
        "reviews": REVIEWS,
        "review": Command(
            "let a served model judge the mistakes of a run",
            "app.agents.options:ReviewOptions",
            "app.agents.commands:review",
        ),
        "mcp": Command(
            "serve the tools of agents over stdio", "app.agents.options:McpOptions", "app.agents.commands:serve_mcp"
        ),
        "publish": Command(
            "write a read-only player", "app.publish.options:PublishOptions", "app.publish.commands:publish"
        ),
        "space": Command(
            "write the folder of a Hugging Face Space", "app.space.commands:SpaceOptions", "app.space.commands:space"
        ),
        "figure": Command(
            "draw a video or a chart of a run", "app.figures.options:FigureOptions", "app.cli.figure:draw"
        ),
        "presets": ENGINE["presets"],
        "check": ENGINE["check"],
        **{name: EVALUATION[name] for name in ("bench", "schema", "metrics")},
    },
)
main = partial(run_program, STEPSCOPE, prog="stepscope")
