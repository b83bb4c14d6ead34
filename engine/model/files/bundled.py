"""The bundled checkpoints by name, as ``--checkpoint`` and the page take them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

ASSETS: Final = Path(__file__).parents[3] / "assets"
BUNDLED_CHECKPOINTS: Final[Mapping[str, Path]] = {
    "bundled": ASSETS / "checkpoint",
    "bundled-silent-token": ASSETS / "checkpoint-silent-token",
    "bundled-answer": ASSETS / "checkpoint-answer",
}
"""The first one decides with its two heads, its twin by a silent token, the adapter by answers to questions."""
BUNDLED_DIGESTS: Final = frozenset({"75e5cb7d20a0d693", "b44e31fcd7c68b4b", "65945b1656e5a5b8"})
"""Their digests, by which a run names its model."""


def bundled_name(folder: Path) -> str | None:
    """Return the name of the bundled checkpoint in a folder; None for any other folder."""
    return next((name for name, known in BUNDLED_CHECKPOINTS.items() if known.resolve() == folder.resolve()), None)
