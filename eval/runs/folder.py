"""Run folders: the settings, and per video its outputs and a record; see ``eval.runs.output_folder``.

``run.json`` holds the settings and the package versions. A video's outputs are ``<video>.jsonl``; its record,
``<video>.record.json``, is written after them and marks the video as finished or failed. A resumed run keeps each video
whose record has no error, and runs the rest again.
"""

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from pydantic import TypeAdapter

from stepscope.engine.config import IllegalUpdates, StreamConfig
from stepscope.engine.decisions.policies import DecisionPolicy, find_policy
from stepscope.engine.decisions.signals import SignalSpec, describe_states
from stepscope.engine.dialogue import STATES, fill_legality, initial_state
from stepscope.engine.evidence.records import EvidenceFile
from stepscope.engine.imports import import_uncollected
from stepscope.engine.io.files import open_file, write_json
from stepscope.engine.io.hub_cache import PREFIX, find_hub_file, parse_address
from stepscope.engine.io.json_records import Amount, Count, short_repr
from stepscope.engine.records import FrameOutput, GapReason, read_outputs, write_outputs
from stepscope.eval.data.samples import InvalidSample, Sample
from stepscope.eval.metrics.matched_video import LiveCounts
from stepscope.eval.runs.notes import RunNotes
from stepscope.eval.runs.output_folder import Outcome, OutputFolder, RunSettings

_PACKAGES: Final = ("torch", "transformers", "numpy")
_RECORD: Final = ".record.json"
_MAX_NAME_LENGTH: Final = 120
_BLOCK: Final = 2**20
_NUM_BLOCKS: Final = 256
CHANGED: Final = "its entry in the split, or its video file, changed since the earlier run; it was run again"
_CUT_NAME: Final = re.compile(r"~[0-9a-f]{16}$")
"""The end of the file name of a long id; a short id of this form is cut too, so that no two ids share a file."""
NO_REFERENCE: Final = "has no reference, so it has no scores"
COPIED: Final = "has only a copy of the model's own outputs as turns, so it has no scores; correct them first"
UNSCORED: Final = (NO_REFERENCE, COPIED)
"""Reasons why a video has outputs and no scores."""
OWN_SPLIT: Final = "split.json"
"""The split in the folder of a recorded run whose videos bring their own tasks."""
OWNER: Final = ".owner"
"""Ending of the file beside a split that names who uploaded or recorded it, on a page of several people."""

IDENTITY: Final = (
    *("split", "model_digest", "heads_digest", "device", "dtype", "config", "live", "kept_features"),
    *("recorded", "signals", "has_states", "hardware_decoding"),
)
"""The settings in ``run.json`` that determine the outputs; a run is resumed only with the same values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRecord(Outcome):
    """The record of a finished or failed video, beside its outputs."""

    num_frames: Count = 0
    wall_s: Amount | None = None
    """Seconds of decoding, encoding and model, without the teacher-forced pass; None if unknown.

    With kept features, of the model alone. Of the time that several videos were in flight, each has an equal share.
    """
    batch_size: Count = 1
    """Videos per forward pass at most."""
    device: str = ""
    peak_memory_mb: Amount | None = None
    """Peak memory so far of the GPU, or of the worker process on a CPU; None if unknown."""
    graphs: str = ""
    """Whether CUDA graphs were ``checked`` against eager passes, or ``off`` and why; empty on other devices."""
    live: LiveCounts | None = None
    """Counts of the teacher-forced pass, if there was one."""
    reused_features: bool | None = None
    """Whether it ran on embeddings that an earlier run had kept; None if unknown."""
    fps: Amount | None = None
    """Frames per second of the outputs; None if unknown."""
    undecided: Mapping[GapReason, Count] | None = None
    """Instants of a live session without a decision, by reason; None if it is not one."""


class RunFolder(OutputFolder):
    """A run folder to read; ``open`` opens one for writing."""

    kind = "run"
    identity = IDENTITY
    result_files = (f"*{_RECORD}",)
    redo = "continue the run, which runs this video again"

    def settings(self) -> Mapping[str, Any] | None:
        """Return ``run.json``, or None if it does not exist. Raises ``ValueError`` if it is invalid.

        A relative ``split`` begins at the run folder, so that both can be moved together.
        """
        settings = self._read_settings(RunSettings, "run.json")
        if settings is None or not settings.get("split") or settings["split"].startswith(PREFIX):
            return settings
        return {**settings, "split": os.path.realpath(self.path / settings["split"])}

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write ``run.json``: the settings, the versions of Python and the packages, and when it was first written."""
        found = self._read_settings(RunSettings, "run.json") or {}
        made = {
            "versions": versions(),
            "created": found.get("created") or datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_json(self.path / "run.json", {**relative_split(settings, self.path), **made})

    def split_path(self) -> Path:
        """Return the path of the run's split, downloaded if it is one of the Hub.

        Raises ``ValueError`` if this is not the run folder of a split, or if the download fails.
        """
        split = (self.settings() or {}).get("split")
        if not isinstance(split, str):
            raise ValueError(f"{self.path} is not the run folder of a split; give a folder of `stepscope eval`")
        if not split.startswith(PREFIX):
            return Path(split)
        path = parse_address(split).path
        import_uncollected("stepscope.engine.io.hub_files").fetch_missing(path)
        return path

    def has_states(self) -> bool:
        """Return whether the outputs hold states; see the function of this name."""
        return has_states(self.settings() or {})

    def signals(self) -> tuple[SignalSpec, ...]:
        """Return the descriptions of the named signals. Raises ``ValueError`` for an invalid ``run.json``."""
        return read_signal_specs(self.settings() or {})

    def count_videos(self) -> int:
        """Return the number of videos of this run that are finished or failed."""
        return sum(1 for _ in self.path.glob(f"*{_RECORD}"))

    def record(self, video_id: str) -> VideoRecord | None:
        """Return a video's record, or None if it does not exist. An invalid record counts as that of a failed video."""
        return self._read_video(VideoRecord, self._record_path(video_id), video_id)

    def finished_outputs(self, sample: Sample) -> tuple[FrameOutput, ...]:
        """Return a video's outputs, empty if it was not run or failed. Raises as ``outputs``."""
        return () if explain_missing(sample, self.record(sample.video_id)) else self.outputs(sample)

    def outputs(self, sample: Sample) -> tuple[FrameOutput, ...]:
        """Return a finished video's outputs.

        Raises ``ValueError`` if they are missing or invalid, or if their steps are not those of the sample.
        """
        path = output_path(self.path, sample.video_id)
        try:
            outputs = self._with_states(read_outputs(path), sample)
            check_frames(path, outputs, sample)
        except FileNotFoundError as error:
            raise ValueError(f"{path} is missing; {self.redo}") from error
        except ValueError as error:
            raise ValueError(f"{error}; {self.redo}") from error
        if all(output.legality is not None for output in outputs):
            return outputs
        config = (self.settings() or {}).get("config", {})
        illegal: IllegalUpdates = "refuse" if config.get("illegal_updates") == "refuse" else "apply"
        return fill_legality(outputs, initial_state(sample.steps, sample.initial_state), illegal=illegal)

    def _with_states(self, outputs: tuple[FrameOutput, ...], sample: Sample) -> tuple[FrameOutput, ...]:
        """Give the outputs of a run without states the initial state, which depends on the steps of the split."""
        if not sample.steps or any(output.dst_state for output in outputs) or self.has_states():
            return outputs
        state = initial_state(sample.steps, sample.initial_state)
        return tuple(replace(output, dst_state=state) for output in outputs)

    def find_finished(self, sample: Sample) -> VideoRecord | None:
        """Return the record of a sample whose outputs are complete and current, or None if it must be run again."""
        record = self.record(sample.video_id)
        if record is None or record.error or not is_outcome_of(record, sample):
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
        self.save_record(record)

    def save_record(self, record: VideoRecord) -> None:
        """Write the record of a video whose outputs are written, which marks it as finished."""
        write_json(self._record_path(record.video_id), asdict(record))

    def delete_video(self, video_id: str) -> None:
        """Remove a video's files, the record first. Raises ``FolderRefusedError`` if they are of another video."""
        self._check_owner(VideoRecord, self._record_path(video_id), video_id)
        self._record_path(video_id).unlink(missing_ok=True)
        output_path(self.path, video_id).unlink(missing_ok=True)
        evidence_path(self.path, video_id).unlink(missing_ok=True)

    def _record_path(self, video_id: str) -> Path:
        return self.path / f"{make_file_name(video_id)}{_RECORD}"


def check_frames(source: object, outputs: Sequence[FrameOutput], sample: Sample) -> None:
    """Raise ``ValueError`` unless there is one output per frame, with a known state of each step of the sample."""
    ids = {step.id for step in sample.steps}
    for index, output in enumerate(outputs):
        if output.frame_index != index:
            raise ValueError(f"{source}, line {index + 1}: frame_index must count from 0; got {output.frame_index}")
        state = output.dst_state
        if state.keys() != ids or not set(STATES).issuperset(state.values()):
            raise ValueError(
                f"{source}, line {index + 1}: dst_state must have the steps of the split, "
                f"{', '.join(sorted(ids))[:200]}, each as one of {', '.join(STATES)}; got {short_repr(dict(state))}"
            )


def has_states(settings: Mapping[str, Any]) -> bool:
    """Return whether outputs hold states by the settings of their run.

    Those of an import repeat the initial state, and so do those of a policy without updates.
    """
    stated = settings.get("has_states")
    if stated is not None:
        return bool(stated)
    return "imported" not in settings and read_policy(settings).has_updates


def read_policy(settings: Mapping[str, Any]) -> DecisionPolicy:
    """Return the decision policy in the settings of a run, by default that of the heads.

    Raises ``ValueError`` for an unknown policy.
    """
    config = settings.get("config")
    return find_policy(config.get("decision_policy", "heads") if isinstance(config, Mapping) else "heads")


def read_signal_specs(settings: Mapping[str, Any]) -> tuple[SignalSpec, ...]:
    """Return the descriptions of the named signals in the settings of a run."""
    return tuple(spec if isinstance(spec, SignalSpec) else SignalSpec(**spec) for spec in settings.get("signals") or ())


def describe_rules(settings: Mapping[str, Any]) -> str:
    """Return the rules by which named signals decide in a run, such as ``speak by score, running-sum, threshold 2.00``.

    Empty for a run whose own thresholds decide. A result file holds no rule: that of an imported run was given with it.
    """
    source = ", given at the import" if "imported" in settings or "missing" in settings else ""
    return "; ".join(
        f"{spec.decides} by {spec.title}, {spec.policy}, threshold {_threshold_text(spec.threshold)}{source}"
        for spec in read_signal_specs(settings)
        if spec.decides is not None and spec.threshold is not None
    )


def _threshold_text(value: float) -> str:
    """Return a threshold with all its digits, two at least, as the player does."""
    return np.format_float_positional(value, min_digits=2)


def signal_settings(config: StreamConfig) -> dict[str, Any]:
    """Return the descriptions of the named signals of a stream's settings as settings of a run; empty without any."""
    specs = describe_states(config.policy, config.states)
    return {"signals": [asdict(spec) for spec in specs]} if specs else {}


def read_stream_config(settings: Mapping[str, Any], *, fps: float) -> StreamConfig:
    """Return the stream settings of a ``run.json`` for a video. Raises ``ValueError`` for unknown settings."""
    try:
        return StreamConfig(**{**settings.get("config", {}), "fps": fps})
    except TypeError as error:
        raise ValueError("the run has settings that this version does not support") from error


def explain_missing(entry: Sample | InvalidSample, outcome: Outcome | None) -> str:
    """Return why an entry of a split has no outputs; an empty text if it has."""
    if isinstance(entry, InvalidSample):
        return entry.reason
    if isinstance(outcome, VideoRecord) and outcome.fps and not math.isclose(outcome.fps, entry.fps):
        return f"has {outcome.fps:g} frames/s in the run, but {entry.fps:g} in the split; run it with this split"
    return "has not been run; continue the run" if outcome is None else outcome.error


def explain_unscored(entry: Sample | InvalidSample, outcome: Outcome | None) -> str:
    """Return why an entry of a split has no scores; an empty text if it has."""
    if reason := explain_missing(entry, outcome):
        return reason
    return explain_no_reference(entry) if isinstance(entry, Sample) else ""


def explain_no_reference(sample: Sample) -> str:
    """Return why a sample has no reference to score against; an empty text if it has one."""
    if sample.is_copied:
        return COPIED
    return "" if sample.has_reference else NO_REFERENCE


def relative_split(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings for ``run.json``: a split in the run folder is named relative to it, so that it can be moved."""
    split = settings.get("split")
    if split != str(folder.resolve() / OWN_SPLIT):
        return dict(settings)
    return {**settings, "split": OWN_SPLIT}


def digest_sample(sample: Sample) -> str:
    """Return digests of a sample with the size of its video, and of the video's content, of 16 hexadecimal digits each.

    The second is missing without the file, and for a file of the Hub, which never changes.
    """
    path = sample.video_path
    digest = digest_entry(sample)
    return f"{digest}-{digest_video(path)}" if path is not None and _is_kept(path) else digest


def digest_entry(sample: Sample) -> str:
    """Return the first digest of ``digest_sample``, for which the video is not read."""
    path = sample.video_path
    size = os.path.getsize(path) if path is not None and _is_kept(path) else None
    content = {**asdict(sample), "video_path": None if path is None else path.name, "size": size}
    if not sample.after:
        del content["after"]  # as earlier versions, which had no graphs
    del content["clock_s"]  # it is for the times of imported results, and changes no outputs
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _is_kept(path: Path) -> bool:
    return os.path.exists(path) and find_hub_file(path) is None  # those of the Hub come later


def digest_video(path: Path) -> str:
    """Return a digest of a video file; of one with more than ``_NUM_BLOCKS`` MiB, of as many from start to end."""
    size, digest = os.path.getsize(path), hashlib.sha256()
    with open_file(path) as file:
        for start in (*range(0, size, max(_BLOCK, size // _NUM_BLOCKS)), max(0, size - _BLOCK)):
            file.seek(start)
            digest.update(file.read(_BLOCK))
    return digest.hexdigest()[:16]


def is_outcome_of(outcome: Outcome, sample: Sample) -> bool:
    """Return whether an outcome is of this sample and this video file; earlier versions kept no digest of the file."""
    source = digest_sample(sample)
    return outcome.source in (source, source.partition("-")[0])


def explain_rerun(outcome: Outcome | None, sample: Sample) -> str:
    """Return the warning for a sample that is run again, since its outcome is not of this sample; empty if it is."""
    return CHANGED if outcome is not None and not outcome.error and not is_outcome_of(outcome, sample) else ""


def output_path(folder: Path, video_id: str) -> Path:
    """Return the path of a video's outputs; its id is quoted to a safe file name."""
    return folder / f"{make_file_name(video_id)}.jsonl"


def evidence_path(folder: Path, video_id: str) -> Path:
    """Return the path of the evidence for a video's decisions."""
    return folder / f"{make_file_name(video_id)}.evidence.json"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that run the model."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):  # a recorded run may come from a program without them
            found[name] = version(name)
    return found


def make_file_name(video_id: str) -> str:
    """Return a name for the files of a video without suffix, whatever its id is."""
    name = quote(video_id, safe=" ", errors="surrogatepass")
    if len(name) < _MAX_NAME_LENGTH or (len(name) == _MAX_NAME_LENGTH and not _CUT_NAME.search(name)):
        return name
    digest = hashlib.sha256(video_id.encode(errors="surrogatepass")).hexdigest()
    return f"{name[: _MAX_NAME_LENGTH - 17]}~{digest[:16]}"


FILES: Final[dict[str, Any]] = {
    "run": RunSettings,
    "frame": FrameOutput,
    "record": VideoRecord,
    "notes": RunNotes,
    "evidence": EvidenceFile,
}
"""Kind of record by its name under ``$defs``; ``build_schema`` names their files."""


def build_schema() -> dict[str, Any]:
    """Return one schema whose ``$defs`` hold the schemas of ``FILES``, with the types that they share."""
    inputs: list[tuple[Any, Any, Any]] = [(name, "validation", TypeAdapter(kind)) for name, kind in FILES.items()]
    found, shared = TypeAdapter.json_schemas(inputs, ref_template="#/$defs/{model}")
    definitions = shared.get("$defs", {})
    for kind in ("FrameOutput", "VideoRecord", "RunNotes"):
        definitions[kind]["additionalProperties"] = False  # as the reader refuses unknown fields
    named = {name: schema for (name, _), schema in found.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Files of a StepScope run folder",
        "description": (
            "run: run.json; frame: a line of <video>.jsonl; record: <video>.record.json; notes: notes.json; "
            "evidence: <video>.evidence.json."
        ),
        "$defs": {**definitions, **named},
    }
