"""Run folders: the settings, and per video its outputs and a record; see ``eval.runs.output_folder``.

``run.json`` holds the settings and the package versions. A video's outputs are ``<video>.jsonl``; its record,
``<video>.record.json``, is written after them and marks the video as finished or failed. A resumed run keeps each video
whose record has no error, and runs the rest again.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

from pydantic import AliasChoices, Field

from engine.config import IllegalUpdates
from engine.dialogue import fill_legality, initial_state
from engine.io import write_json
from engine.json_records import Amount, Count
from engine.records import FrameOutput, write_outputs
from eval.data.samples import InvalidSample, Sample
from eval.metrics.videollm_online import LiveCounts
from eval.runs.files import REDO, read_sample_outputs, read_settings
from eval.runs.output_folder import Outcome, OutputFolder, open_folder

_PACKAGES: Final = ("torch", "transformers", "numpy")
_RECORD: Final = ".record.json"
_MAX_NAME_LENGTH: Final = 120

IDENTITY: Final = ("split", "model_digest", "heads_digest", "device", "config", "live", "kept_features")
"""The settings in ``run.json`` that determine the outputs; a run is resumed only with the same values."""


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


class RunFolder(OutputFolder):
    """A run folder to read; ``open_run_folder`` opens one for writing."""

    kind = "run"
    identity = IDENTITY

    def settings(self) -> Mapping[str, Any] | None:
        """Return ``run.json``, or None if it does not exist. Raises ``ValueError`` if it is invalid."""
        return read_settings(self.path / "run.json")

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write ``run.json``: the settings, and the versions of Python and the packages."""
        write_settings(self.path, settings)

    def split_path(self) -> Path:
        """Return the path of the run's split. Raises ``ValueError`` if this is not the run folder of a split."""
        split = (self.settings() or {}).get("split")
        if not isinstance(split, str):
            raise ValueError(f"{self.path} is not the run folder of a split; give a folder of `stepscope eval`")
        return Path(split)

    def _illegal_updates(self) -> IllegalUpdates:
        """Return how the run treated illegal updates; ``apply`` for an imported run."""
        config = (self.settings() or {}).get("config")
        return "refuse" if isinstance(config, dict) and config.get("illegal_updates") == "refuse" else "apply"

    def has_states(self) -> bool:
        """Return whether the outputs hold states: those of imported systems only repeat the initial state."""
        return "imported" not in (self.settings() or {})

    def has_results(self) -> bool:
        """Return whether a video of this run is finished or failed."""
        return self.count_videos() > 0

    def count_videos(self) -> int:
        """Return the number of videos of this run that are finished or failed."""
        return sum(1 for _ in self.path.glob(f"*{_RECORD}"))

    def record(self, video_id: str) -> VideoRecord | None:
        """Return a video's record, or None if it does not exist. An invalid record counts as that of a failed video."""
        try:
            return self._read_video(VideoRecord, self._record_path(video_id), video_id)
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
        outputs = read_sample_outputs(output_path(self.path, sample.video_id), sample)
        if all(output.legality is not None for output in outputs):
            return outputs
        initial = initial_state(sample.steps, sample.initial_state)
        return fill_legality(outputs, initial, illegal=self._illegal_updates())

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


def open_run_folder(
    path: Path, settings: Mapping[str, Any], *, resume: bool = False
) -> AbstractContextManager[RunFolder]:
    """Lock a folder for a run and write its ``run.json``; see ``open_folder``."""
    return open_folder(RunFolder(path), settings, resume=resume)


def explain_missing(entry: Sample | InvalidSample, outcome: Outcome | None) -> str:
    """Return why an entry of a split has no outputs; an empty text if it has."""
    if isinstance(entry, InvalidSample):
        return entry.reason
    return "has not been run; continue the run" if outcome is None else outcome.error


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
