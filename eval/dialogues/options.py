"""The options of the command ``dialogues``."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tyro.conf import Positional

from stepscope.engine.cli.program import Options


@dataclass(frozen=True, kw_only=True)
class DialoguesOptions(Options):
    """Write a dialogue for each video of a split from its steps and updates, or check the dialogues of a split."""

    stop_message: ClassVar[str] = "stopped; no split was written; the same command asks for missing answers only"

    split: Positional[Path]
    """Split with steps and updates; its user and assistant turns are replaced."""
    out: Path | None = None
    """Manifest to write. Answers of a model are kept beside it, in OUT.answers.jsonl."""
    rate: float = 0.2
    """Chance of a question of the user per step: 0 for none, 0.4 for many."""
    questions: int | None = None
    """Questions in each video, instead of --rate."""
    endpoint: str = ""
    """Served model that words the turns, instead of templates: the base address of an OpenAI-compatible endpoint, such
    as http://localhost:8000/v1. The key is read from $STEPSCOPE_API_KEY or $OPENAI_API_KEY."""
    model: str = ""
    """Name of the served model."""
    workers: int = 4
    """With --endpoint: requests at a time."""
    timeout_s: float = 60.0
    """With --endpoint: time limit of a request, in seconds."""
    retries: int = 3
    """With --endpoint: repeats of a request that fails."""
    estimate: bool = False
    """With --endpoint: print the number of requests and tokens, and stop."""
    check: bool = False
    """Write nothing: print what the dialogues of the split say before it is known, and steps that do not exist."""
