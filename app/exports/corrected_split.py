"""Write a split with corrected references in a format that loads again, with the provenance of its corrections.

A manifest has the provenance in its field ``provenance``, which readers ignore. The other formats have it in
``<file>.provenance.json``. The output is deterministic: it has no date except that of the last correction.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from stepscope.app.reviews.review import Review
from stepscope.engine.io.files import replace_surrogates_in
from stepscope.engine.io.hub_cache import PREFIX, name_file
from stepscope.eval.annotations.corrected_samples import CorrectedSample
from stepscope.eval.data.samples import Sample
from stepscope.eval.data.writers import FileFormat, OptionalField, write_samples

PathBase = Literal["out", "split"]
"""Base of the video paths in a manifest: the folder of the written file, or that of the source split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSource:
    """The source split of the corrected references."""

    name: str
    """File name, or the name on the page."""
    path: Path | None = None
    """The file; None for videos that are in no split."""
    digest: str = ""
    """SHA-256 of the file; empty without a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionProvenance:
    """The provenance of the corrections of a split. The field names are those of the JSON file."""

    written_by: str
    """Program and version."""
    source: str
    source_sha256: str
    """SHA-256 of the file of the source split."""
    reviewers: tuple[str, ...]
    """Reviewers with at least one effective correction."""
    num_corrections: Mapping[str, int]
    """Number of corrections by status (``eval.annotations.corrected_samples``), such as ``effective``."""
    num_corrected_turns: int
    """Number of turns that were changed, added or deleted."""
    last_correction_at: str
    """Time of the last effective correction, in UTC; empty without any."""
    prefer: tuple[str, ...]
    """Reviewers whose corrections win conflicts, best first."""
    only: str | None
    """The reviewer whose corrections alone were applied (blind mode); None for all reviewers."""
    without: tuple[str, ...]
    """Details of the source that were omitted."""


def write_corrected_split(
    path: Path,
    corrected: Sequence[CorrectedSample],
    *,
    file_format: FileFormat,
    source: SplitSource,
    review: Review,
    prefer: Sequence[str] = (),
    omit: Collection[OptionalField] = (),
    relative_to: PathBase = "out",
) -> None:
    """Write a split with corrected references, and its provenance.

    ``corrected`` are in the order of the file. ``omit`` has details that the format cannot represent. With
    ``relative_to`` ``split``, a video outside the split's folder is written as its file name.

    Raises ``ValueError`` as ``write_samples`` does.
    """
    samples = [found.sample for found in corrected]
    videos = _paths_from(path, samples) if relative_to == "out" else _paths_in_split(source.path, samples)
    provenance = describe_corrections(corrected, source=source, review=review, prefer=prefer, omit=omit)
    write_samples(
        path,
        samples,
        file_format=file_format,
        omit=omit,
        videos=videos,
        provenance=dict(replace_surrogates_in(asdict(provenance))),
    )


def describe_corrections(
    corrected: Sequence[CorrectedSample],
    *,
    source: SplitSource,
    review: Review,
    prefer: Sequence[str] = (),
    omit: Collection[OptionalField] = (),
) -> CorrectionProvenance:
    """Return the provenance of the corrections; arguments as for ``write_corrected_split``."""
    statuses, reviewers, times = Counter[str](), set[str](), list[str]()
    for found in corrected:
        entries = [entry for entry in review.correction_log.get(found.sample.video_id, ()) if not entry.is_undone]
        for entry, status in zip(entries, found.statuses, strict=True):
            statuses[status] += 1
            if status == "effective":
                reviewers.add(entry.correction.reviewer)
                times.append(entry.at.astimezone(UTC).isoformat())
    return CorrectionProvenance(
        written_by=f"StepScope {version('stepscope')}",
        source=source.name,
        source_sha256=source.digest,
        reviewers=tuple(sorted(reviewers)),
        num_corrections=dict(sorted(statuses.items())),
        num_corrected_turns=sum(found.num_changed for found in corrected),
        last_correction_at=max(times, default=""),
        prefer=tuple(prefer),
        only=review.only,
        without=tuple(sorted(omit)),
    )


def _paths_from(path: Path, samples: Sequence[Sample]) -> dict[Path, str]:
    """Return each video's path from the folder of the written file, with ``..`` where needed, or its Hub address."""
    folder, paths = path.resolve().parent, dict[Path, str]()
    for video in _videos(samples):
        paths[video] = name_file(video)
        with suppress(ValueError):  # another drive
            if not paths[video].startswith(PREFIX):
                paths[video] = Path(os.path.relpath(paths[video], folder)).as_posix()
    return paths


def _paths_in_split(source: Path | None, samples: Sequence[Sample]) -> dict[Path, str]:
    """Return each video's path relative to the folder of the split, or its file name if it lies outside that folder.

    Files outside that share a name are written relative to their common folder. Example: ``/data/a/x.mp4`` and
    ``/data/b/x.mp4`` become ``a/x.mp4`` and ``b/x.mp4``. So no path reveals a location on this machine.
    """
    folder = None if source is None else source.parent
    videos = _videos(samples)
    outside = [video for video in videos if folder is None or not video.is_relative_to(folder)]
    names = Counter(video.name for video in outside)
    duplicates = [video.resolve() for video in outside if names[video.name] > 1]
    common = Path(os.path.commonpath(duplicates)) if duplicates else Path()

    def to_path(video: Path) -> Path:
        if folder is not None and video.is_relative_to(folder):
            return video.relative_to(folder)
        return video.resolve().relative_to(common) if names[video.name] > 1 else Path(video.name)

    return {video: to_path(video).as_posix() for video in videos}


def _videos(samples: Sequence[Sample]) -> list[Path]:
    return list(dict.fromkeys(sample.video_path for sample in samples if sample.video_path is not None))
