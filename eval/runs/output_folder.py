"""The folders that runs and sweeps write: who may write one, and whether one can be resumed.

Each file in such a folder is written atomically, and a video counts once its last file exists. A killed program can
therefore be resumed. Only one program at a time can write a folder. A folder with different settings, or with content
of a different kind, is refused. A setting that a folder of an older version lacks has its default there.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

from filelock import FileLock, Timeout

from engine.config import StreamConfig
from engine.json_records import read_record
from eval.runs.files import RunSettings

_LOCK: Final = ".lock"


class FolderRefusedError(ValueError):
    """A run or a sweep cannot be written into this folder, which is unchanged."""


class Outcome(Protocol):
    """The result of a video, of one run or of every point of a sweep."""

    @property
    def video_id(self) -> str:
        """Id of the video."""

    @property
    def error(self) -> str:
        """Why it failed; empty if it is finished."""


R = TypeVar("R", bound=Outcome)


class OutputFolder(ABC):
    """A folder of a run or a sweep to read; ``open_folder`` opens one for writing."""

    kind: ClassVar[str]
    """``run`` or ``sweep``."""
    identity: ClassVar[Sequence[str] | None]
    """The settings that must be equal to resume; None for all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def settings(self) -> Mapping[str, Any] | None:
        """Return the settings, or None if their file does not exist. Raises ``ValueError`` if it is invalid."""

    @abstractmethod
    def has_results(self) -> bool:
        """Return whether anything would be lost if the settings changed."""

    @abstractmethod
    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write the file of the settings."""

    def check(self, settings: Mapping[str, Any], *, resume: bool) -> None:
        """Raise ``FolderRefusedError`` if a run or sweep with these settings cannot write here; write nothing.

        Accepted are an empty folder, one without results and, with ``resume``, one with equal settings.
        """
        found = self.settings()
        if found is None and any(entry.name != _LOCK and entry.suffix != ".part" for entry in self.path.iterdir()):
            raise FolderRefusedError(f"{self.path} is not empty and holds no {self.kind}; name a new folder")
        if found is None or not self.has_results():
            return
        if not resume:
            raise FolderRefusedError(
                f"{self.path} holds a {self.kind} already; continue it with --resume, or name a new folder"
            )
        if changed := find_changed_settings(found, settings, self.identity):
            changes = describe_changes(changed, found, settings)
            raise FolderRefusedError(f"{self.path} holds a {self.kind} with {changes}; name a new folder")

    def _read_video(self, kind: type[R], path: Path, video_id: str) -> R:
        """Read the record of a video. Raises as ``read_record``, and ``ValueError`` for that of a different video."""
        record = read_record(kind, path)
        if record.video_id != video_id:
            raise ValueError(f"{path} is of the video {record.video_id}, not of {video_id}")
        return record


F = TypeVar("F", bound=OutputFolder)


@contextmanager
def open_folder(folder: F, settings: Mapping[str, Any], *, resume: bool) -> Iterator[F]:
    """Create and lock a folder and write its settings; the lock lasts as long as the ``with`` block.

    Raises ``FolderRefusedError`` as ``OutputFolder.check``, for a file, and for a folder that a different program has
    locked.
    """
    if folder.path.exists() and not folder.path.is_dir():
        raise FolderRefusedError(f"--out {folder.path} is a file; name a folder for the {folder.kind}")
    folder.path.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder.path):
        folder.check(settings, resume=resume)
        for partial in folder.path.glob(".*.part"):  # of a program that was killed while it wrote
            partial.unlink(missing_ok=True)
        folder.write_settings(settings)
        yield folder


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Lock a folder for writing. Raises ``FolderRefusedError`` if a different program holds the lock."""
    lock = FileLock(path / _LOCK, thread_local=False)  # a sweep of the page may end in a different thread
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise FolderRefusedError(
            f"{path} is being written by another program; wait for it, or name a new folder"
        ) from error
    try:
        yield
    finally:
        (path / _LOCK).unlink(missing_ok=True)  # before the release: afterwards it may be the lock of another program
        lock.release()


def with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as read from JSON, with the default of each setting that they lack."""
    plain = json.loads(json.dumps(settings))
    config = {**asdict(StreamConfig()), **plain.get("config", {})}
    return {**RunSettings().model_dump(), **plain, "config": config}


def find_changed_settings(
    found: Mapping[str, Any], settings: Mapping[str, Any], names: Iterable[str] | None
) -> list[str]:
    """Return those of ``names``, by default of all settings, whose values differ in a folder and in new settings."""
    old, new = with_defaults(found), with_defaults(settings)
    return [name for name in names or {**old, **new} if old.get(name) != new.get(name)]


def describe_changes(names: Sequence[str], found: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Describe the differences of two runs in the named settings, such as ``another seed (0; now 1)``."""
    changes, before, wanted = list[str](), with_defaults(found), with_defaults(settings)
    for name in names:
        old, new = before.get(name), wanted.get(name)
        if name == "model_digest":
            changes.append(_describe_model_change(found, wanted))
        elif isinstance(old, dict) and isinstance(new, dict):
            keys = [] if name == "model_parts" else [key for key in {**old, **new} if old.get(key) != new.get(key)]
            changes += [f"another {key} ({old.get(key)}; now {new.get(key)})" for key in keys]
        elif name != "model_parts":
            changes.append(f"another {name} ({old}; now {new})")
    return ", ".join(changes)


def _describe_model_change(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Describe the parts of the model that differ, as far as both runs record them."""
    old, new = found.get("model_parts"), wanted.get("model_parts")
    if not isinstance(new, dict) or found.get("model_digest") is None:
        return f"another model ({found.get('model_digest')}; now {wanted.get('model_digest')})"
    if not isinstance(old, dict):
        return (
            f"a model of which an older version recorded only the weights ({found.get('model_digest')}), so that its "
            "config, tokenizer, chat template and preprocessor cannot be compared"
        )
    changed = [name.replace("_", " ") for name, digest in new.items() if old.get(name) != digest]
    return f"another model (changed: {', '.join(changed)})"
