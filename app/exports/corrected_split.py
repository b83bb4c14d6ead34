"""A split with its references as corrected, in a form that loads again, and where its corrections come from.

A manifest holds the provenance in its field ``provenance``, which readers ignore; beside a file of another form it is
``<file>.provenance.json``. The same reviews give the same file, so it has no date of its own but that of the last
correction.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal, get_args

from app.reviews.review import Review
from engine.io import replace_surrogates_in
from eval.annotations.corrected_samples import CorrectedSample
from eval.data.samples import Sample
from eval.data.writers import FileFormat, OptionalField, write_samples

PathBase = Literal["out", "split"]
"""What the video paths of a manifest are relative to: the written file, or the file of the source split."""
PATH_BASES: Final[tuple[PathBase, ...]] = get_args(PathBase)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSource:
    """The split that was corrected."""

    name: str
    """File name, or what the page calls it."""
    path: Path | None = None
    """Its file; None for videos that are in no split."""
    digest: str = ""
    """SHA-256 of the file; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionProvenance:
    """Where the corrections of a split come from."""

    written_by: str
    """Program and version."""
    source: str
    """Name of the split that was corrected."""
    source_sha256: str
    """Digest of its file."""
    reviewers: tuple[str, ...]
    """Whose corrections are in force."""
    num_corrections: Mapping[str, int]
    """Corrections by status: ``effective`` and those that are not in force (``eval.annotations.corrected_samples``)."""
    num_corrected_turns: int
    """Turns that were changed, added or deleted."""
    last_correction_at: str
    """When the last correction that is in force was given, in UTC; empty without any."""
    prefer: tuple[str, ...]
    """Whose corrections counted in a conflict, best first."""
    only: str | None
    """The reviewer whose corrections alone were looked at (blind mode); None for everybody's."""
    without: tuple[str, ...]
    """What was left out of the source."""


def write_corrected_split(
    path: Path,
    corrected: Sequence[CorrectedSample],
    *,
    form: FileFormat,
    source: SplitSource,
    review: Review,
    prefer: Sequence[str] = (),
    without: Collection[OptionalField] = (),
    relative_to: PathBase = "out",
) -> None:
    """Write a split as corrected, with its provenance.

    Args:
        path: The file.
        corrected: The samples, in the order in which they are written.
        form: See ``eval.data.writers``.
        source: The split that was corrected.
        review: The corrections that were applied.
        prefer: Whose corrections counted in a conflict, best first.
        without: What is left out because the form cannot hold it.
        relative_to: With ``split``, a video that does not lie below the split's folder is named by its file name.

    Raises ``ValueError`` as ``write_samples`` does.
    """
    samples = [found.sample for found in corrected]
    videos = _paths_from(path, samples) if relative_to == "out" else _paths_in_split(source.path, samples)
    provenance = describe_corrections(corrected, source=source, review=review, prefer=prefer, without=without)
    write_samples(
        path,
        samples,
        file_format=form,
        omit=without,
        videos=videos,
        provenance=dict(replace_surrogates_in(asdict(provenance))),
    )


def describe_corrections(
    corrected: Sequence[CorrectedSample],
    *,
    source: SplitSource,
    review: Review,
    prefer: Sequence[str] = (),
    without: Collection[OptionalField] = (),
) -> CorrectionProvenance:
    """Return where the corrections of samples come from; arguments as in ``write_corrected_split``."""
    statuses, reviewers, times = Counter[str](), set[str](), list[str]()
    for found in corrected:
        counting = [given for given in review.given.get(found.sample.video_id, ()) if not given.is_undone]
        for given, status in zip(counting, found.statuses, strict=True):
            statuses[status] += 1
            if status == "effective":
                reviewers.add(given.correction.reviewer)
                times.append(given.at.astimezone(UTC).isoformat())
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
        without=tuple(sorted(without)),
    )


def _paths_from(path: Path, samples: Sequence[Sample]) -> dict[Path, str]:
    """Return the videos by paths from the folder of the written file, also those that do not lie below it."""
    folder, paths = path.resolve().parent, dict[Path, str]()
    for video in _videos(samples):
        try:
            paths[video] = Path(os.path.relpath(video.resolve(), folder)).as_posix()
        except ValueError:  # another drive
            paths[video] = video.resolve().as_posix()
    return paths


def _paths_in_split(source: Path | None, samples: Sequence[Sample]) -> dict[Path, str]:
    """Return the videos by the paths that the split has, if these are relative; else by their file names.

    Of files that share a name, the path below their common folder. No path says where on this machine the videos are.
    """
    folder = None if source is None else source.parent
    videos = _videos(samples)
    outside = [video for video in videos if folder is None or not video.is_relative_to(folder)]
    names = Counter(video.name for video in outside)
    twins = [video.resolve() for video in outside if names[video.name] > 1]
    common = Path(os.path.commonpath(twins)) if twins else Path()

    def written(video: Path) -> Path:
        if folder is not None and video.is_relative_to(folder):
            return video.relative_to(folder)
        return video.resolve().relative_to(common) if names[video.name] > 1 else Path(video.name)

    return {video: written(video).as_posix() for video in videos}


def _videos(samples: Sequence[Sample]) -> list[Path]:
    return list(dict.fromkeys(sample.video_path for sample in samples if sample.video_path is not None))
