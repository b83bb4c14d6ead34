"""The commands that print a document: definitions of the scores, the JSON Schema of run folders."""

import sys

from stepscope.engine.io.files import to_json
from stepscope.eval.cli.options import MetricsOptions, SchemaOptions
from stepscope.eval.metrics.definitions import to_markdown
from stepscope.eval.runs.schema import build_schema


def print_metrics(_: MetricsOptions) -> int:
    """Print ``docs/metrics.md``."""
    sys.stdout.write(to_markdown())
    return 0


def print_schema(_: SchemaOptions) -> int:
    """Print ``docs/run-folder.schema.json``."""
    sys.stdout.write(to_json(build_schema(), indent=1) + "\n")
    return 0
