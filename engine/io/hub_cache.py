"""Addresses of the Hugging Face Hub, and paths in its cache: ``datasets--OWNER--NAME/snapshots/COMMIT/FILE``."""

import re
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from huggingface_hub import constants

PREFIX: Final = "hf://"
_ADDRESS: Final = re.compile(
    r"hf://(?P<kind>datasets/)?(?!datasets/)(?P<owner>[^/@]+)/(?P<name>[^/@]+)(@(?P<revision>[^/@]+))?(?P<file>(/[^/]+)*)/?"
)


class HubFile(NamedTuple):
    """A file of a repository of the Hub at a commit or branch, which may not be downloaded yet."""

    repo_type: str
    repo_id: str
    name: str
    """Empty for the whole repository."""
    revision: str
    cache: Path

    @property
    def address(self) -> str:
        """The address, such as ``hf://datasets/owner/name/boat.mp4``."""
        return f"{PREFIX}{'datasets/' if self.repo_type == 'dataset' else ''}{self.repo_id}/{self.name}"

    @property
    def repository(self) -> Path:
        """The folder of the repository in the cache."""
        return self.cache / "--".join([f"{self.repo_type}s", *self.repo_id.split("/")])

    @property
    def path(self) -> Path:
        """Where the cache has the file."""
        return self.repository / "snapshots" / self.revision / self.name


def parse_address(address: str) -> HubFile:
    """Return the file of an address, of ``main`` if it names no revision; raise ``ValueError`` for no address."""
    found = _ADDRESS.fullmatch(address)
    if found is None or {"..", "."} & set(re.split("[/@]", address)):
        raise ValueError(f"{address} is no address; write hf://datasets/OWNER/NAME/FILE or hf://OWNER/NAME/FILE")
    return HubFile(
        repo_type="dataset" if found["kind"] else "model",
        repo_id=f"{found['owner']}/{found['name']}",
        name=found["file"].strip("/"),
        revision=found["revision"] or constants.DEFAULT_REVISION,
        cache=Path(constants.HF_HUB_CACHE),
    )


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


def name_file(path: Path) -> str:
    """Return a name that finds a file again: its real path, or the address of a file of the Hub at its commit.

    The real path of a file of the Hub is a hash, without its neighbours.
    """
    found = find_hub_file(path.absolute())
    return str(path.resolve()) if found is None else found._replace(repo_id=f"{found.repo_id}@{found.revision}").address
