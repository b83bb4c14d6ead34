"""Run folders: the settings, and per video its outputs and a record. Each file is written atomically.

``run.json`` holds the settings and the package versions. A video's outputs are ``<video>.jsonl``; its record,
``<video>.record.json``, is written after them and marks the video as finished or failed. A killed run can therefore be
resumed: a video whose record has no error is kept, and the rest is run again. Only one program at a time can write a
folder. A folder with different settings, or without a run, is refused.
"""

import fcntl
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, Protocol
from urllib.parse import quote

from pydantic import AliasChoices, Field

from engine.config import IllegalUpdates
from engine.io import write_json
from engine.json_records import Amount, Count, read_record
from engine.records import FrameOutput, write_outputs
from eval.data.samples import InvalidSample, Sample
from eval.metrics.videollm_online import LiveCounts
from eval.runs.files import REDO, read_sample_outputs, read_settings

_PACKAGES: Final = ("torch", "transformers", "numpy")
_RECORD: Final = ".record.json"
_MAX_NAME_LENGTH: Final = 120

IDENTITY: Final = ("split", "model_digest", "heads_digest", "device", "config", "live", "kept_features")
"""The settings in ``run.json`` that determine the outputs; a run is resumed only with the same values."""


class FolderRefusedError(ValueError):
    """A run or a sweep cannot be written into this folder, which is unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRecord:
    """The record of a finished or failed video, beside its outputs."""

    video_id: str
    source: str
    """Digest of its sample; see ``digest_sample``."""
    num_frames: Count = 0
    """Frames that were streamed."""
    wall_s: Amount | None = None
    """Seconds of decoding, encoding and model, without the teacher-forced pass; None if unknown.

    With kept features, of the model alone.
    """
    device: str = ""
    """Torch device that it ran on."""
    peak_memory_mb: Amount | None = None
    """Peak memory so far of the GPU, or of the worker process on a CPU; None if unknown."""
    warning: Annotated[str, Field(validation_alias=AliasChoices("warning", "remark"))] = ""
    """A problem that did not stop the run, such as damage to the file; ``remark`` in files of older versions."""
    error: str = ""
    """Why it failed; empty if it is finished."""
    live: LiveCounts | None = None
    """Counts of the teacher-forced pass, if there was one."""
    reused_features: bool | None = None
    """Whether it ran on embeddings that an earlier run had kept; None if unknown."""


class RunFolder:
    """A run folder to read; ``open_run_folder`` opens one for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def settings(self) -> Mapping[str, Any] | None:
        """Return ``run.json``, or None if it does not exist. Raises ``ValueError`` if it is invalid."""
        return read_settings(self.path / "run.json")

    def split_path(self) -> Path:
        """Return the path of the run's split. Raises ``ValueError`` if this is not the run folder of a split."""
        split = (self.settings() or {}).get("split")
        if not isinstance(split, str):
            raise ValueError(f"{self.path} is not the run folder of a split; give a folder of `stepscope eval`")
        return Path(split)

    def illegal_updates(self) -> IllegalUpdates:
        """Return how the run treated illegal updates; ``apply`` for an imported run."""
        config = (self.settings() or {}).get("config")
        return "refuse" if isinstance(config, dict) and config.get("illegal_updates") == "refuse" else "apply"

    def has_states(self) -> bool:
        """Return whether the outputs hold states: those of imported systems only repeat the initial state."""
        return "imported" not in (self.settings() or {})

    def count_videos(self) -> int:
        """Return the number of videos of this run that are finished or failed."""
        return sum(1 for _ in self.path.glob(f"*{_RECORD}"))

    def record(self, video_id: str) -> VideoRecord | None:
        """Return a video's record, or None if it does not exist. An invalid record counts as that of a failed video."""
        path = self._record_path(video_id)
        try:
            record = read_record(VideoRecord, path)
            if record.video_id != video_id:
                raise ValueError(f"{path} is of the video {record.video_id}, not of {video_id}")
            return record
        except FileNotFoundError:
            return None
        except ValueError as error:
            return VideoRecord(video_id=video_id, source="", error=f"{error}; {REDO}")

    def finished_outputs(self, sample: Sample) -> tuple[FrameOutput, ...]:
        """Return a video's outputs, empty if it was not run or failed. Raises as ``outputs``."""
        return () if explain_missing(sample, self.record(sample.video_id)) else self.outputs(sample)

    def outputs(self, sample: Sample) -> tuple[FrameOutput, ...]:
        """Return a finished video's outputs.

        Raises ``ValueError`` if they are missing or invalid, or if their steps are not those of the sample.
        """
        return read_sample_outputs(output_path(self.path, sample.video_id), sample)

    def find_finished(self, sample: Sample) -> VideoRecord | None:
        """Return the record of a sample whose outputs are complete and current, or None if it must be run again."""
        record = self.record(sample.video_id)
        if record is None or record.error or record.source != digest_sample(sample):
            return None
        try:
            is_whole = len(self.outputs(sample)) == record.num_frames
        except ValueError:
            return None  # invalid outputs are replaced by a new run
        return record if is_whole else None

    def save_video(self, record: VideoRecord, outputs: Sequence[FrameOutput]) -> None:
        """Write a video's outputs, unless it failed, then its record."""
        self.delete_video(record.video_id)
        if not record.error:
            write_outputs(output_path(self.path, record.video_id), outputs)
        write_json(self._record_path(record.video_id), asdict(record))

    def delete_video(self, video_id: str) -> None:
        """Remove a video's files, the record first."""
        self._record_path(video_id).unlink(missing_ok=True)
        output_path(self.path, video_id).unlink(missing_ok=True)

    def _record_path(self, video_id: str) -> Path:
        return self.path / f"{_file_name(video_id)}{_RECORD}"


@contextmanager
def open_run_folder(path: Path, settings: Mapping[str, Any], *, resume: bool = False) -> Iterator[RunFolder]:
    """Lock a folder for a run and write its ``run.json``; the lock lasts as long as the ``with`` block.

    Accepted are an empty folder, a run without a finished video and, with ``resume``, a run with equal values of the
    settings in ``IDENTITY``. Raises ``FolderRefusedError`` otherwise, and for a file.
    """
    with create_folder(path, kind="run"):
        folder = RunFolder(path)
        _check_folder(folder, settings, resume=resume)
        remove_partial_files(path)
        write_settings(path, settings)
        yield folder


@contextmanager
def create_folder(path: Path, *, kind: str) -> Iterator[None]:
    """Create a folder for a run or a sweep (``kind``) if necessary, and lock it within the ``with`` block.

    Raises ``FolderRefusedError`` for a file, and for a folder that a different program has locked.
    """
    if path.exists() and not path.is_dir():
        raise FolderRefusedError(f"--out {path} is a file; name a folder for the {kind}")
    path.mkdir(parents=True, exist_ok=True)
    with lock_folder(path):
        yield


def remove_partial_files(path: Path) -> None:
    """Remove the temporary files of a program that was killed while it wrote into a folder."""
    for partial in path.glob(".*.part"):
        partial.unlink(missing_ok=True)


def check_resumable(path: Path, settings: Mapping[str, Any]) -> None:
    """Raise ``FolderRefusedError`` if a run of these settings cannot be resumed in a folder; write nothing."""
    if path.exists():
        _check_folder(RunFolder(path), settings, resume=True)


class Outcome(Protocol):
    """The result of a video, of one run or of every point of a sweep."""

    @property
    def error(self) -> str:
        """Why it failed; empty if it is finished."""


def explain_missing(entry: Sample | InvalidSample, outcome: Outcome | None) -> str:
    """Return why an entry of a split has no outputs; an empty text if it has."""
    if isinstance(entry, InvalidSample):
        return entry.reason
    return "has not been run; continue the run" if outcome is None else outcome.error


def find_changed_settings(found: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return the names in ``IDENTITY`` whose values differ between a ``run.json`` and new settings."""
    wanted = json.loads(json.dumps(settings))
    return [name for name in IDENTITY if found.get(name) != wanted.get(name)]


def digest_sample(sample: Sample) -> str:
    """Return a digest of a sample and the size of its video file, 16 hexadecimal digits."""
    path = sample.video_path
    size = path.stat().st_size if path is not None and path.exists() else None
    content = {**asdict(sample), "video_path": None if path is None else path.name, "size": size}
    if path is None or sample.start_s is None:
        del content["start_s"]  # so that older runs, without this field, keep their digest
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def output_path(folder: Path, video_id: str) -> Path:
    """Return the path of a video's outputs; its id is quoted to a safe file name."""
    return folder / f"{_file_name(video_id)}.jsonl"


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write ``run.json``: the settings, and the versions of Python and the packages."""
    write_json(folder / "run.json", {**settings, "versions": versions()})


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that run the model."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def _file_name(video_id: str) -> str:
    name = quote(video_id, safe=" ", errors="surrogatepass")
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    digest = hashlib.sha256(video_id.encode(errors="surrogatepass")).hexdigest()
    return f"{name[: _MAX_NAME_LENGTH - 17]}~{digest[:16]}"


def _check_folder(folder: RunFolder, settings: Mapping[str, Any], *, resume: bool) -> None:
    found = folder.settings()
    if found is None and any(not entry.name.endswith(".part") for entry in folder.path.iterdir()):
        raise FolderRefusedError(f"{folder.path} is not empty and holds no run; name a new folder")
    if found is None or not folder.count_videos():
        return
    if not resume:
        raise FolderRefusedError(f"{folder.path} holds a run already; continue it with --resume, or name a new folder")
    changed = find_changed_settings(found, settings)
    if changed:
        raise FolderRefusedError(
            f"{folder.path} holds a run with {describe_changes(changed, found, settings)}; name a new folder"
        )


def describe_changes(names: Sequence[str], found: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Describe the differences of two runs in the named settings, such as ``another seed (0; now 1)``."""
    changes, wanted = list[str](), json.loads(json.dumps(settings))
    for name in names:
        old, new = found.get(name), wanted.get(name)
        if name == "model_digest":
            changes.append(_describe_model_change(found, wanted))
        elif isinstance(old, dict) and isinstance(new, dict):
            keys = [] if name == "model_parts" else [key for key, value in new.items() if old.get(key) != value]
            changes += [f"another {key} ({old.get(key)}; now {new[key]})" for key in keys]
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


@contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Lock a folder for writing. Raises ``FolderRefusedError`` if a different program holds the lock."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise FolderRefusedError(
            f"{path} is being written by another program; wait for it, or name a new folder"
        ) from error
    finally:
        os.close(handle)
