"""Write a split with corrected references in a format that loads again, with the provenance of its corrections.

A manifest has the provenance in its field ``provenance``, which readers ignore. The other formats have it in
``<file>.provenance.json``. The output is deterministic: it has no date except that of the last correction.
"""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from stepscope.app.review_store.review import Review
from stepscope.engine.io.files import replace_surrogates_in
from stepscope.engine.io.hub_cache import PREFIX, name_file
from stepscope.eval.annotations.corrected_samples import CorrectedSample
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.data.writers import FileFormat, OptionalField, write_samples

PathBase = Literal["out", "split"]
"""Base of the video paths in a manifest: the folder of the written file, or that of the source split."""


def write_corrected_split(
    path: Path,
    corrected: Sequence[CorrectedSample],
    *,
    file_format: FileFormat,
    source: Split | str,
    review: Review,
    prefer: Sequence[str] = (),
    omit: Collection[OptionalField] = (),
    relative_to: PathBase = "out",
) -> None:
    """Write a split with corrected references, and its provenance.

    ``corrected`` are in the order of the file. ``source`` is their split, or a name for videos that are in no split.
    ``omit`` has details that the format cannot represent. With ``relative_to`` ``split``, a video outside the split's
    folder is written as its file name.

    Raises ``ValueError`` as ``write_samples`` does.
    """
    samples = [found.sample for found in corrected]
    split = source if isinstance(source, Split) else None
    folder = split.path.parent if split else None
    videos = _paths_from(path, samples) if relative_to == "out" else _paths_in_split(folder, samples)
    provenance = {
        "written_by": f"StepScope {version('stepscope')}",
        **(split.origin if split else {}),
        "source": split.path.name if split else source,
        "source_sha256": split.digest if split else "",
        **_describe_corrections(corrected, review),
        "prefer": list(prefer),
        "only": review.only,
        "without": sorted(omit),
    }
    write_samples(
        path,
        samples,
        file_format=file_format,
        omit=omit,
        videos=videos,
        provenance=dict(replace_surrogates_in(provenance)),
    )


def _describe_corrections(corrected: Sequence[CorrectedSample], review: Review) -> dict[str, Any]:
    """Return who made effective corrections and when, and the number of corrections by status."""
    statuses, reviewers, times = Counter[str](), set[str](), list[str]()
    for found in corrected:
        entries = [entry for entry in review.correction_log.get(found.sample.video_id, ()) if not entry.is_undone]
        for entry, status in zip(entries, found.statuses, strict=True):
            statuses[status] += 1
            if status == "effective":
                reviewers.add(entry.correction.reviewer)
                times.append(entry.at.astimezone(UTC).isoformat())
    return {
        "reviewers": sorted(reviewers),
        "num_corrections": dict(sorted(statuses.items())),
        "num_corrected_turns": sum(found.num_changed for found in corrected),
        "last_correction_at": max(times, default=""),
    }


def _paths_from(path: Path, samples: Sequence[Sample]) -> dict[Path, str]:
    """Return each video's path from the folder of the written file, with ``..`` where needed, or its Hub address."""
    folder = path.resolve().parent
    names = {video: name_file(video) for video in _videos(samples)}
    return {video: name if name.startswith(PREFIX) else os.path.relpath(name, folder) for video, name in names.items()}


def _paths_in_split(folder: Path | None, samples: Sequence[Sample]) -> dict[Path, str]:
    """Return each video's path relative to the folder of the split, or its file name if it lies outside that folder.

    Files outside that share a name are written relative to their common folder. Example: ``/data/a/x.mp4`` and
    ``/data/b/x.mp4`` become ``a/x.mp4`` and ``b/x.mp4``. So no path reveals a location on this machine.
    """
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
