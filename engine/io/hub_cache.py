"""Paths in the cache of the Hugging Face Hub: ``datasets--OWNER--NAME/snapshots/COMMIT/FILE``."""

from pathlib import Path, PurePath
from typing import NamedTuple


class HubFile(NamedTuple):
    """A file of a repository of the Hub at a commit, which may not be downloaded yet."""

    repo_type: str
    repo_id: str
    name: str
    revision: str
    cache: Path

    @property
    def address(self) -> str:
        """The address, such as ``hf://datasets/owner/name/boat.mp4``."""
        return f"hf://{'datasets/' if self.repo_type == 'dataset' else ''}{self.repo_id}/{self.name}"


def find_hub_file(path: PurePath) -> HubFile | None:
    """Return the file of the Hub that a path in the cache is for; None for any other path."""
    parts = path.parts
    for at in range(1, len(parts) - 3):
        kind, *names = parts[at].split("--")
        if parts[at + 1] == "snapshots" and kind in ("datasets", "models") and len(names) == 2 and ".." not in parts:
            return HubFile(
                repo_type=kind.removesuffix("s"),
                repo_id="/".join(names),
                name="/".join(parts[at + 3 :]),
                revision=parts[at + 2],
                cache=Path(*parts[:at]),
            )
    return None
