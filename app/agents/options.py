"""The options of ``stepscope mcp`` and ``stepscope review``."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tyro.conf import Positional, UseAppendAction

from stepscope.app.exports.options import StoreOptions
from stepscope.engine.cli.program import Options


@dataclass(frozen=True, kw_only=True)
class McpOptions(Options):
    """Serve the tools of agents over stdio, by the Model Context Protocol. An MCP client starts this command."""

    runs: Path = Path("runs")
    """Folder of run folders."""
    reviews: str = ""
    """Review store: a file or an SQLAlchemy URL (default: reviews.sqlite in --runs)."""
    page: str = "http://127.0.0.1:7860/"
    """Address of the page, for links."""

    stop_message: ClassVar[str] = "stopped"


@dataclass(frozen=True, kw_only=True)
class ReviewOptions(StoreOptions):
    """Let a served multimodal model judge the mistakes of a run. It never counts as a person, and settles nothing."""

    stop_message: ClassVar[str] = "stopped; the same command asks for the rest"

    run: Positional[Path]
    """Run folder of a scored run, which keeps the answers."""
    endpoint: str
    """OpenAI-compatible endpoint, such as http://localhost:8000/v1. The key is read from $STEPSCOPE_API_KEY or
    $OPENAI_API_KEY."""
    model: str
    """Name of the served model; it reviews as model:NAME."""
    video: UseAppendAction[tuple[str, ...]] = ()
    """Only the video with this id."""
    max_mistakes: int = 200
    """Most mistakes to judge, in the order of the split."""
    workers: int = 4
    """Requests at a time."""
    timeout_s: float = 60.0
    """Time limit of a request, in seconds."""
    retries: int = 3
    """Repeats of a request that fails."""
    estimate: bool = False
    """Print the number of requests, pictures and tokens, and stop."""
