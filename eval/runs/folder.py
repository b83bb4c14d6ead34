"""Run folders: settings, and per video its outputs with a small record; each file is there whole or not at all.

``run.json`` holds the settings and the versions of what ran them. A video's outputs are ``<video>.jsonl``; its record,
``<video>.record.json``, is written after them and says that the video is finished, or why it failed. So a run that was
killed at any moment can be continued: what has a record without an error is kept, all else is run again. Two programs
cannot write one folder at a time, and a folder of other settings, or of something else, is refused.
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
from typing import Any, Final, Protocol
from urllib.parse import quote

from engine.config import IllegalUpdates
from engine.json_records import Amount, Count, read_record
from engine.records import FrameOutput, write_outputs
from eval.metrics.videollm_online import LiveCounts
from eval.runs.files import REDO, read_sample_outputs, read_settings
from eval.data.samples import InvalidSample, Sample
from engine.io import write_json

_PACKAGES: Final = ("torch", "transformers", "numpy")
_RECORD: Final = ".record.json"
_LONGEST_NAME: Final = 120

IDENTITY: Final = ("split", "model_digest", "heads_digest", "device", "config", "live", "kept_features")
"""The settings in ``run.json`` that outputs follow from; a run is continued only with the same."""


class FolderRefusedError(ValueError):
    """A folder that a run or a sweep cannot be written into; nothing in it has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRecord:
    """What is known of a finished or failed video beside its outputs."""

    video_id: str
    """Its name."""
    source: str
    """Digest of what it was made from; see ``digest_sample``."""
    num_frames: Count = 0
    """Frames that were streamed."""
    wall_s: Amount | None = None
    """Seconds of decoding, vision and model, the teacher-forced pass not counted; of kept features, of the model alone.

    None where not known.
    """
    device: str = ""
    """Where it ran."""
    peak_memory_mb: Amount | None = None
    """Largest memory so far of the GPU, or of the process that ran it; None where not known."""
    remark: str = ""
    """What is odd about the video, such as damage; empty when all is well."""
    error: str = ""
    """Why it failed; empty when it is finished."""
    live: LiveCounts | None = None
    """Counts of the teacher-forced pass, if there was one."""
    reused_features: bool | None = None
    """Whether it ran on embeddings that an earlier run had kept; None where not known."""


class RunFolder:
    """A run folder that can be read; ``claim`` opens one for writing.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def settings(self) -> Mapping[str, Any] | None:
        """Return ``run.json``; None where there is none. Raises ``ValueError`` when it is not what a run writes."""
        return read_settings(self.path / "run.json")

    def illegal_updates(self) -> IllegalUpdates:
        """Return what the run did with illegal updates; an imported one does not say."""
        config = (self.settings() or {}).get("config")
        return "refuse" if isinstance(config, dict) and config.get("illegal_updates") == "refuse" else "apply"

    def has_states(self) -> bool:
        """Whether the outputs hold states: imported systems keep none, and theirs stay as at the start."""
        return "imported" not in (self.settings() or {})

    def has_videos(self) -> bool:
        """Whether a video of this run is finished or failed."""
        return any(self.path.glob(f"*{_RECORD}"))

    def record(self, video_id: str) -> VideoRecord | None:
        """Return a video's record; None where there is none. One that cannot be read is that of a failed video."""
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

    def known_outputs(self, sample: Sample) -> tuple[FrameOutput, ...]:
        """Return a video's outputs; none where it was not run or failed. Raises as ``outputs``."""
        return () if why_missing(sample, self.record(sample.video_id)) else self.outputs(sample)

    def outputs(self, sample: Sample) -> tuple[FrameOutput, ...]:
        """Return a finished video's outputs.

        Raises ``ValueError`` when they are missing, cannot be read, or are of other steps than the sample's.
        """
        return read_sample_outputs(output_path(self.path, sample.video_id), sample)

    def finished(self, sample: Sample) -> VideoRecord | None:
        """Return the record of a sample that need not be run again; None for all others."""
        record = self.record(sample.video_id)
        if record is None or record.error or record.source != digest_sample(sample):
            return None
        try:
            is_whole = len(self.outputs(sample)) == record.num_frames
        except ValueError:
            return None  # outputs that cannot be read are made again
        return record if is_whole else None

    def keep(self, record: VideoRecord, outputs: Sequence[FrameOutput]) -> None:
        """Write one video: its outputs, unless it failed, then its record."""
        self.forget(record.video_id)
        if not record.error:
            write_outputs(output_path(self.path, record.video_id), outputs)
        write_json(self._record_path(record.video_id), asdict(record))

    def forget(self, video_id: str) -> None:
        """Remove a video's files, the record first."""
        self._record_path(video_id).unlink(missing_ok=True)
        output_path(self.path, video_id).unlink(missing_ok=True)

    def _record_path(self, video_id: str) -> Path:
        return self.path / f"{_file_name(video_id)}{_RECORD}"


@contextmanager
def claim(path: Path, settings: Mapping[str, Any], *, resume: bool = False) -> Iterator[RunFolder]:
    """Open a folder for a run and write its ``run.json``; nobody else can while the block lasts.

    An empty folder, or a run without a finished video, is taken as it is; with ``resume``, so is a run whose settings
    agree in ``IDENTITY``. Raises ``FolderRefusedError`` for any other folder, and for a file.
    """
    if path.exists() and not path.is_dir():
        raise FolderRefusedError(f"--out {path} is a file; name a folder for the run")
    path.mkdir(parents=True, exist_ok=True)
    with lock(path):
        folder = RunFolder(path)
        _check(folder, settings, resume=resume)
        for rest in path.glob(".*.part"):  # of a program that was killed while it wrote
            rest.unlink(missing_ok=True)
        write_settings(path, settings)
        yield folder


def check_run(path: Path, settings: Mapping[str, Any]) -> None:
    """Raise ``FolderRefusedError`` where ``claim`` would not go on with what a folder holds; nothing is written."""
    if path.exists():
        _check(RunFolder(path), settings, resume=True)


class Outcome(Protocol):
    """What is known of a video that was run, once or at every point of a sweep."""

    @property
    def error(self) -> str:
        """Why it failed; empty when it is finished."""


def why_missing(entry: Sample | InvalidSample, outcome: Outcome | None) -> str:
    """Say why an entry of a split has no outputs; nothing when it has."""
    if isinstance(entry, InvalidSample):
        return entry.reason
    return "has not been run; continue the run" if outcome is None else outcome.error


def other_settings(found: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return the names in ``IDENTITY`` in which a ``run.json`` differs from settings; none when it can be continued."""
    wanted = json.loads(json.dumps(settings))
    return [name for name in IDENTITY if found.get(name) != wanted.get(name)]


def digest_sample(sample: Sample) -> str:
    """Return what a video's outputs and counts follow from beside the settings: record, and size of its file."""
    path = sample.video_path
    size = path.stat().st_size if path is not None and path.exists() else None
    content = {**asdict(sample), "video_path": None if path is None else path.name, "size": size}
    if path is None or sample.start_s is None:
        del content["start_s"]  # runs that are older than this field keep their digest
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def output_path(folder: Path, video_id: str) -> Path:
    """Return where a video's outputs are kept; its id is made a harmless file name."""
    return folder / f"{_file_name(video_id)}.jsonl"


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write ``run.json``: the settings, and the versions of what ran them."""
    write_json(folder / "run.json", {**settings, "versions": versions()})


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that run the model."""
    return {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def _file_name(video_id: str) -> str:
    name = quote(video_id, safe=" ", errors="surrogatepass")
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(video_id.encode(errors="surrogatepass")).hexdigest()
    return f"{name[: _LONGEST_NAME - 17]}~{digest[:16]}"


def _check(folder: RunFolder, settings: Mapping[str, Any], *, resume: bool) -> None:
    found = folder.settings()
    if found is None and any(not entry.name.endswith(".part") for entry in folder.path.iterdir()):
        raise FolderRefusedError(f"{folder.path} is not empty and holds no run; name a new folder")
    if found is None or not folder.has_videos():
        return
    if not resume:
        raise FolderRefusedError(f"{folder.path} holds a run already; continue it with --resume, or name a new folder")
    other = other_settings(found, settings)
    if other:
        raise FolderRefusedError(
            f"{folder.path} holds a run with {tell_differences(other, found, settings)}; name a new folder"
        )


def tell_differences(names: Sequence[str], found: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Say in which of the settings of these names two runs differ."""
    told, wanted = list[str](), json.loads(json.dumps(settings))
    for name in names:
        old, new = found.get(name), wanted.get(name)
        if name == "model_digest":
            told.append(_tell_model(found, wanted))
        elif isinstance(old, dict) and isinstance(new, dict):
            keys = [] if name == "model_parts" else [key for key, value in new.items() if old.get(key) != value]
            told += [f"another {key} ({old.get(key)}; now {new[key]})" for key in keys]
        elif name != "model_parts":
            told.append(f"another {name} ({old}; now {new})")
    return ", ".join(told)


def _tell_model(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say which parts of the model have changed, as far as both runs record them."""
    old, new = found.get("model_parts"), wanted.get("model_parts")
    if not isinstance(new, dict) or found.get("model_digest") is None:
        return f"another model ({found.get('model_digest')}; now {wanted.get('model_digest')})"
    if not isinstance(old, dict):
        return (
            f"a model of which only the weights are recorded ({found.get('model_digest')}), as older versions did, so "
            "that nobody can say whether its config, tokenizer, chat template and preprocessor were the same"
        )
    changed = [name.replace("_", " ") for name, digest in new.items() if old.get(name) != digest]
    return f"another model (changed: {', '.join(changed)})"


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Keep other programs from writing a folder. Raises ``FolderRefusedError`` while another does."""
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
