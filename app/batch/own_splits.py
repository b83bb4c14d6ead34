"""Splits that are added while the page runs: by a path, on a page that only this machine sees, or as an upload.

An uploaded split names no files of the server. Its videos are those of the splits that the page has already, found by
their file name or id; a record with another video cannot be used, and says so. It is kept as a manifest beside the run
folders, so that its runs can be opened after a restart.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from app.player.session.references import check_size
from eval.data.loading import digest_split, read_split
from eval.data.samples import InvalidSample, Sample, Split
from eval.data.writers import write_samples

MAX_ADDED: Final = 50
"""Uploaded splits that are kept."""


def add_by_path(splits: MutableMapping[str, Split], path: Path) -> str:
    """Add the split of a file, or read it again; return its name.

    Raises ``ValueError`` for a file that is no split, without videos, or with the name of another split.
    """
    path = path.expanduser()
    if path.is_file():
        check_size(path)
    split = _read(path)
    _check_name(splits, path.stem, path)
    splits[path.stem] = split
    return path.stem


def add_upload(splits: MutableMapping[str, Split], upload: Path, *, folder: Path) -> str:
    """Add an uploaded split and return its name.

    Args:
        splits: The splits of the page, which gets the new one.
        upload: The file as it was uploaded.
        folder: Where it is kept, as ``<its name>.json``.

    Raises ``ValueError`` as ``add_by_path`` does, and when none of its videos is one of the page's.
    """
    check_size(upload)
    kept = folder / f"{upload.stem}.json"
    if not kept.exists() and len(list(folder.glob("*.json"))) >= MAX_ADDED:
        raise ValueError(f"{upload}: {MAX_ADDED} uploaded splits are kept already; remove some from {folder.name}")
    entries = tuple(_with_known_videos(_read(upload).entries, splits))
    if upload.stem in splits and splits[upload.stem].entries != entries:  # another window may use it
        raise ValueError(f"{upload}: the page has another split called {upload.stem}; rename the file")
    samples = [entry for entry in entries if isinstance(entry, Sample)]
    if not samples:
        raise ValueError(f"{upload}: {next(e.reason for e in entries if isinstance(e, InvalidSample))}")
    folder.mkdir(parents=True, exist_ok=True)
    write_samples(kept, samples, file_format="manifest")
    splits[upload.stem] = Split(path=kept, entries=entries, digest=digest_split(kept))
    return upload.stem


def read_kept(splits: MutableMapping[str, Split], folder: Path) -> list[str]:
    """Add the uploaded splits that a folder keeps; return a sentence for each that cannot be read."""
    problems = []
    for path in sorted(folder.glob("*.json")):
        try:
            if path.stem not in splits:
                splits[path.stem] = _read(path)
        except ValueError as error:
            problems.append(f"The uploaded split {path.stem} is left out: {error}.")
    return problems


def describe_split(name: str, split: Split) -> tuple[str, bool]:
    """Return a sentence about a split that was added, and whether some of its records cannot be used."""
    bad = [entry for entry in split.entries if isinstance(entry, InvalidSample)]
    num_videos = len(split.samples)
    said = f"The split {name} has {num_videos} video{'s' if num_videos != 1 else ''}."
    if not bad:
        return said, False
    return f"{said} Records that cannot be used: {len(bad)}; the first: {bad[0].reason}.", True


def _read(path: Path) -> Split:
    split = read_split(path)
    if not split.samples:
        bad = [entry.reason for entry in split.entries if isinstance(entry, InvalidSample)]
        raise ValueError(bad[0] if bad else f"{path}: holds no videos")
    return split


def _check_name(splits: Mapping[str, Split], name: str, path: Path) -> None:
    if name in splits and splits[name].path.resolve() != path.resolve():
        raise ValueError(f"{path}: the page has another split called {name}; rename the file")


def _with_known_videos(
    entries: Iterable[Sample | InvalidSample], splits: Mapping[str, Split]
) -> Iterator[Sample | InvalidSample]:
    """Yield the entries with the page's videos in place of the paths that they name.

    One that is found by its id is the same part of the file as there.
    """
    found: defaultdict[str, set[Path]] = defaultdict(set)
    parts: defaultdict[str, set[tuple[Path, float | None]]] = defaultdict(set)
    for split in splits.values():
        for sample in split.samples:
            if sample.video_path is not None:
                path = sample.video_path.resolve()
                found[path.name].add(path)
                parts[sample.video_id].add((path, sample.start_s))
    for entry in entries:
        if isinstance(entry, InvalidSample):
            yield entry
            continue
        name = entry.video_id if entry.video_path is None else entry.video_path.name
        by_id, by_file = parts.get(name, set()), {(path, entry.start_s) for path in found.get(name, set())}
        options = by_id or by_file if entry.video_path is None else by_file or by_id
        if len(options) == 1:
            ((path, start_s),) = options
            yield replace(entry, video_path=path, start_s=start_s)
            continue
        why = "several videos of the page have this name" if options else "this page has no such video"
        yield InvalidSample(
            video_id=entry.video_id,
            reason=f"{entry.video_id}: an uploaded split cannot name files of the server, and {why}: {name}; "
            "start the page with --split for it",
        )
