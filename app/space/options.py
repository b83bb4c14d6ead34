"""The options of ``stepscope space``."""

from dataclasses import dataclass
from pathlib import Path

from stepscope.engine.cli.program import Options


@dataclass(frozen=True, kw_only=True)
class SpaceOptions(Options):
    """Write the folder of a Hugging Face Space, which can be pushed as it is."""

    out: Path
    """Folder to write; it must not exist or be empty."""
