"""The roots of the failures of a run folder, read from its diagnosis without the model; see ``eval.diagnosis``."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from stepscope.engine.io.files import digest_file
from stepscope.engine.io.json_records import Amount, Count, read_record
from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.matched_video import FailureKind
from stepscope.eval.runs.folder import RunFolder, digest_entry, output_path
from stepscope.eval.runs.output_folder import Outcome, describe_changes, find_changed_settings

DIAGNOSIS_FILE: Final = "diagnosis.json"
_IDENTITY: Final = ("model_digest", "heads_digest", "config", "dataset", "zero_cost")
"""The settings of a run that determine its failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A moment whose correction was needed."""

    frame: Count
    time_s: Amount
    references: tuple[Count, ...]
    """Positions in ``Sample.turns`` of the model's reference turns at its frame; none if it should be silent."""
    kinds: tuple[FailureKind, ...]
    """Kinds of the failures that began there."""
    num_consequences: Count
    """Further failures of the run that vanish with its correction."""
    kept_share: Amount | None = None
    """Of a run that samples its texts: the share of its consequences that happen at other seeds without its correction,
    in [0, 1]; None for a root without any."""
    corrected_share: Amount | None = None
    """The same with its correction."""
    cause: str = ""
    """Its class, one of ``eval.diagnosis.classes.CLASSES``."""
    fixed_by: tuple[str, ...] = ()
    """Accepted experiments that make it right, then the placebos of their kinds that do so as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedFailure:
    """A failure of the run, and the root that it follows from."""

    kind: FailureKind
    time_s: Amount
    root: Count
    """Position in the roots of its video."""
    is_consequence: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedVideo(Outcome):
    """The roots and failures of one video, or why there are none."""

    outputs_digest: str = ""
    """Of the outputs in the run folder that it explains; empty for a recording."""
    roots: tuple[Root, ...] = ()
    failures: tuple[TracedFailure, ...] = ()
    stale: str = ""
    """Why its failures are not those of the run today, as ``read_roots`` has found."""

    def explain_stale(self, sample: Sample) -> str:
        """Return ``stale``, or that the sample, such as a corrected reference, is not the one of the diagnosis."""
        is_same = _same_entry(self.source, digest_entry(sample))
        return self.stale or ("" if is_same else "its reference or its entry in the split has changed")

    def explain_changed(self, run: RunFolder) -> str:
        """Return that the video was run again since; an empty text if it was not."""
        record = run.record(self.video_id)
        is_same = record is not None and not record.error and _same_entry(record.source, self.source)
        return "" if is_same and self.outputs_digest == digest_outputs(run, self.video_id) else "it was run again"


class _File(BaseModel):
    """The part of ``diagnosis.json`` that is read; ``eval.diagnosis.folder`` writes it."""

    settings: dict[str, Any] = {}
    videos: list[TracedVideo] = []


def read_diagnosis_settings(run: Path) -> dict[str, Any] | None:
    """Return the settings of the diagnosis in a run folder; None without one. Raises ``ValueError`` if invalid."""
    try:
        return read_record(_File, run / DIAGNOSIS_FILE).settings
    except FileNotFoundError:
        return None


def read_roots(run: RunFolder) -> Mapping[str, TracedVideo] | None:
    """Return the roots of each diagnosed video of a run folder; None without a diagnosis.

    Raises ``ValueError`` for an invalid file.
    """
    try:
        found = read_record(_File, run.path / DIAGNOSIS_FILE)
    except FileNotFoundError:
        return None
    settings = run.settings() or {}
    changed = find_changed_settings(found.settings, settings, _IDENTITY)
    stale = f"the run has {describe_changes(changed, found.settings, settings)}" if changed else ""
    return {
        video.video_id: replace(video, stale=stale or video.explain_changed(run))
        for video in found.videos
        if not video.error
    }


def _same_entry(source: str, other: str) -> bool:
    return source.partition("-")[0] == other.partition("-")[0]


def digest_outputs(run: RunFolder, video_id: str) -> str:
    """Return a digest of the outputs of a video, 16 hexadecimal digits; empty without any."""
    path = output_path(run.path, video_id)
    return digest_file(path)[:16] if path.is_file() else ""
