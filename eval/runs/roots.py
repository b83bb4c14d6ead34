"""The roots of the failures of a run folder, read from its diagnosis without the model; see ``eval.diagnosis``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from stepscope.engine.io.files import digest_file
from stepscope.engine.io.json_records import Amount, AmountOrNan, Count, read_record
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
    own: str = ""
    """Digest of the user's own experiments among its results; empty without any."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTurns:
    """The reference turns of a video under gold history, by their positions; of an experiment the wrong ones alone."""

    right: tuple[Count, ...] = ()
    wrong: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosedVideo(TracedVideo):
    """One video of a diagnosis, with the results of its experiments."""

    gold: ReferenceTurns = field(default_factory=ReferenceTurns)
    results: Mapping[str, ReferenceTurns] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEffect:
    """What an experiment did to the reference turns of a split, as ``eval.diagnosis.classes.Effect`` is kept."""

    name: str
    kind: str
    is_placebo: bool = False
    fixed: Count = 0
    broken: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptShare:
    """The roots of one class: number, share of all roots, and the ends of its interval; nan if unknown."""

    number: Count = 0
    share: AmountOrNan = math.nan
    interval: Mapping[str, AmountOrNan] = field(default_factory=dict)


class RunDiagnosis(BaseModel):
    """The part of ``diagnosis.json`` that is read without the model; ``eval.diagnosis.folder`` writes it."""

    settings: dict[str, Any] = {}
    videos: list[DiagnosedVideo] = []
    experiments: list[KeptEffect] = []
    classes: dict[str, KeptShare] = {}
    consequences: KeptShare = KeptShare()

    def explain_changed(self, settings: Mapping[str, Any]) -> str:
        """Return why it is not of a run with these settings; an empty text if it is."""
        changed = find_changed_settings(self.settings, settings, _IDENTITY)
        return f"the run has {describe_changes(changed, self.settings, settings)}" if changed else ""

    def find(self, video_id: str) -> DiagnosedVideo | None:
        """Return a video; None if it has no diagnosis."""
        return next((video for video in self.videos if video.video_id == video_id and not video.error), None)

    def count_turns(self, experiment: str) -> tuple[int, int]:
        """Return the wrong and the right reference turns under gold history, in the videos that it changes."""
        changed = [video.gold for video in self.videos if experiment in video.results]
        return sum(len(gold.wrong) for gold in changed), sum(len(gold.right) for gold in changed)


def read_run_diagnosis(run: Path) -> RunDiagnosis | None:
    """Return the diagnosis in a run folder; None without one. Raises ``ValueError`` if invalid."""
    try:
        return read_record(RunDiagnosis, run / DIAGNOSIS_FILE)
    except FileNotFoundError:
        return None


def read_roots(run: RunFolder) -> Mapping[str, TracedVideo] | None:
    """Return the roots of each diagnosed video of a run folder; None without a diagnosis.

    Raises ``ValueError`` for an invalid file.
    """
    found = read_run_diagnosis(run.path)
    if found is None:
        return None
    stale = found.explain_changed(run.settings() or {})
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
