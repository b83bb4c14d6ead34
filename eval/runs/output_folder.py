"""The folders that runs and sweeps write: who may write one, and whether one can be resumed.

Each file in such a folder is written atomically, and a video counts once its last file exists. A killed program can
therefore be resumed. Only one program at a time can write a folder. A folder with different settings, or with content
of a different kind, is refused. A setting that a folder lacks has its default there.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from filelock import FileLock, Timeout
from pydantic import AfterValidator, BaseModel, ConfigDict

from stepscope.engine.config import StreamConfig
from stepscope.engine.decisions.signals import SignalSpec, check_signals
from stepscope.engine.io.files import discard_staged, finish_files
from stepscope.engine.io.json_records import read_record
from stepscope.eval.matching.turns import ZeroCost

_LOCK: Final = ".lock"
_NOT_RESUMED: Final = ("imported", "source")
"""Settings of imports and of live recordings, whose commands have no ``--resume``."""


class FolderRefusedError(ValueError):
    """A run or a sweep cannot be written into this folder, which is unchanged."""


def _check_config(config: dict[str, Any]) -> dict[str, Any]:
    try:
        StreamConfig(**{name: config[name] for name in config.keys() & StreamConfig.__dataclass_fields__.keys()})
    except ValueError as error:
        raise ValueError(f"config.{error}") from error
    return config


class RunSettings(BaseModel):
    """Schema of the settings of a run; one of another program may lack some, or have additional ones."""

    model_config = ConfigDict(extra="allow")

    split: str = ""
    checkpoint: str = ""
    model_digest: str = ""
    heads_digest: str | None = None
    device: str = ""
    devices: list[str] = []
    dtype: str = "float32"
    """The dtype of the text model; that of a CPU in runs of earlier versions, which do not name it."""
    config: Annotated[dict[str, Any], AfterValidator(_check_config)] = {}
    live: bool = False
    kept_features: bool = False
    hardware_decoding: str = "off"
    graphs: str = ""
    text_encoder: str = ""
    dataset: str = ""
    zero_cost: ZeroCost = "keep"
    imported: list[str] = []
    recorded: dict[str, Any] | None = None
    """Name and settings of the model of a recorded run; None for any other run."""
    signals: Annotated[list[SignalSpec], AfterValidator(check_signals)] = []
    """Descriptions of the named signals of the outputs, in the order of their lanes."""
    asked_in_run: str = ""
    has_states: bool | None = None
    """Whether the outputs hold states of the steps; None: not in an imported run, in any other."""
    versions: dict[str, str] = {}
    created: str = ""
    """Time at which the folder was first written, in UTC, such as ``2026-11-25T22:07:35+00:00``; no setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a video, of one run or of every point of a sweep."""

    video_id: str
    source: str
    """Digest of its sample; see ``eval.runs.folder.digest_sample``."""
    warning: str = ""
    """A problem that did not stop it, such as damage to the file."""
    error: str = ""
    """Why it failed; empty if it is finished."""


R = TypeVar("R", bound=Outcome)


class OutputFolder(ABC):
    """A folder of a run or a sweep to read; ``open`` opens one for writing."""

    kind: ClassVar[str]
    """``run`` or ``sweep``."""
    identity: ClassVar[Sequence[str] | None]
    """The settings that must be equal to resume; None for all."""
    result_files: ClassVar[Sequence[str]]
    """Patterns of the files that belong to the present settings."""
    redo: ClassVar[str]
    """How to replace an invalid file of a video."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def settings(self) -> Mapping[str, Any] | None:
        """Return the settings, or None if their file does not exist. Raises ``ValueError`` if it is invalid."""

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
        if found is None or not any(any(self.path.glob(pattern)) for pattern in self.result_files):
            return
        if not resume:
            can_resume = not any(settings.get(name) for name in _NOT_RESUMED)
            cure = f"{'continue it with --resume, or ' * can_resume}name a new folder"
            raise FolderRefusedError(f"{self.path} holds a {self.kind} already; {cure}")
        if changed := find_changed_settings(found, settings, self.identity):
            changes = describe_changes(changed, found, settings)
            raise FolderRefusedError(f"{self.path} holds a {self.kind} with {changes}; name a new folder")

    @classmethod
    @contextmanager
    def open(cls, path: Path, settings: Mapping[str, Any], *, resume: bool = False) -> Iterator[Self]:
        """Create and lock a folder and write its settings; the lock lasts as long as the ``with`` block.

        Raises ``FolderRefusedError`` as ``check``, for a file, and for a folder that a different program has locked.
        """
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise FolderRefusedError(f"--out {path} is a file; name a folder for the {cls.kind}")
        path.mkdir(parents=True, exist_ok=True)
        with lock_folder(path):
            folder.check(settings, resume=resume)
            discard_staged(path)
            folder.write_settings(settings)
            yield folder

    def _read_settings(self, schema: type[BaseModel], name: str) -> dict[str, Any] | None:
        """Return the content of the file with the settings. Returns None and raises ``ValueError`` as ``settings``."""
        finish_files(self.path)
        try:
            return read_record(schema, self.path / name).model_dump(exclude_unset=True)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{error}; restore the file, or {self.kind} into a new folder") from error

    def _read_video(self, kind: type[R], path: Path, video_id: str) -> R | None:
        """Read the result of a video, or return None if it does not exist.

        An invalid file, or one of a different video, counts as that of a failed video.
        """
        try:
            result = read_record(kind, path)
            if result.video_id != video_id:
                raise ValueError(f"{path} is of the video {result.video_id}, not of {video_id}")
        except FileNotFoundError:
            return None
        except ValueError as error:
            return kind(video_id=video_id, source="", error=f"{error}; {self.redo}")
        return result

    def _check_owner(self, kind: type[R], path: Path, video_id: str) -> None:
        """Raise ``FolderRefusedError`` if the result at ``path`` is of a video whose id differs in case only.

        On a file system that ignores case, both ids have the same files.
        """
        try:
            owner = read_record(kind, path).video_id
        except (FileNotFoundError, ValueError):
            return  # an invalid file is replaced
        if owner != video_id and owner.casefold() == video_id.casefold():
            raise FolderRefusedError(
                f"{path} holds the video {owner}, so that {video_id} cannot be saved: this file system ignores case; "
                "rename one of the videos"
            )


@contextmanager
def lock_folder(path: Path, *, timeout_s: float = 0) -> Iterator[None]:
    """Lock a folder for writing. Raises ``FolderRefusedError`` if it cannot, or a different program holds the lock."""
    lock = FileLock(path / _LOCK, thread_local=False)  # a sweep of the page may end in a different thread
    try:
        lock.acquire(timeout=timeout_s)
    except Timeout as error:
        raise FolderRefusedError(
            f"{path} is being written by another program; wait for it, or name a new folder"
        ) from error
    except OSError as error:
        cure = "check its permissions, or name a folder on a local disk"
        raise FolderRefusedError(f"{path} cannot be locked for writing ({error.strerror}): {cure}") from error
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
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            changes += [f"another {key} ({old.get(key)}; now {new.get(key)})" for key in keys]
        else:
            changes.append(f"another {name.removesuffix('_digest')} ({old}; now {new})")
    return ", ".join(changes)
