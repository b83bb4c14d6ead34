"""The options of ``stepscope run``, with those of a served model."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from stepscope.engine.cli.options import RunOptions


@dataclass(frozen=True, kw_only=True)
class RunVideoOptions(RunOptions):
    """Stream one video and write a FrameOutput per line, or with --endpoint a run folder."""

    stop_message: ClassVar[str] = "stopped; {0.kept}"

    endpoint: str = ""
    """Served model, instead of a checkpoint: the base address of an OpenAI-compatible endpoint, such as
    http://localhost:8000/v1, or ws://HOST for vLLM-Omni's video stream. The key is read from $STEPSCOPE_API_KEY or
    $OPENAI_API_KEY."""
    model: str = ""
    """Name of the served model."""
    split: Path | None = None
    """With --endpoint: split with the task and the reference of the video."""
    prompt: Path | None = None
    """With --endpoint: text file of the prompt for each frame; see docs/cli.md."""
    pictures: int = 4
    """With --endpoint: latest pictures of a request."""
    timeout_s: float = 60.0
    """With --endpoint: time limit of a request, in seconds."""
    retries: int = 3
    """With --endpoint: repeats of a request that fails."""
    requests_per_minute: float | None = None
    """With --endpoint: limit of requests."""
    resume: bool = False
    """With --endpoint: continue after the answers that an interrupted recording kept in --out."""
    real_time: bool = False
    """With --endpoint: send frames at their times, and leave out those that are late."""

    @property
    def kept(self) -> str:
        """A sentence on what an interrupted command keeps."""
        if not self.endpoint:
            return "nothing was written"
        return f"{self.out} keeps the answers, the same command with --resume asks for the rest"
