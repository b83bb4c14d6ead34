"""Splits that users add in the batch tab while the page runs: by path, on a local page only, or as an upload.

An uploaded split must not access files of the server. Its videos are looked up in the splits of the page, by file name
or id; records with unknown videos are reported as unusable. The split is stored as a manifest beside the run folders,
so that its runs can be opened after a restart; its vocabulary, uploaded after it, stays beside it.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final

import gradio as gr

from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import SPLITS_FOLDER, BatchContext
from stepscope.app.core.places import read_owner
from stepscope.app.core.references import check_size, check_turns
from stepscope.app.formatting import as_sentence
from stepscope.app.player.views import status_line
from stepscope.app.server.identity import current_user
from stepscope.engine.io.files import atomic_write, digest_file, strip_text
from stepscope.engine.plurals import format_count
from stepscope.eval.data.loading import read_split
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.data.vocabulary import ENDING, read_vocabulary
from stepscope.eval.data.writers import write_samples
from stepscope.eval.runs.folder import OWNER

MAX_ADDED: Final = 50
"""Maximum number of stored uploads. Beyond it, the user who has the most unused ones loses the oldest of them."""

_ADDING: Final = Lock()


def add_upload(batches: BatchContext, upload: Path) -> str:
    """Add an uploaded split and return its name.

    Raises ``ValueError`` if the file is not a split, has the name of a different one, or none of the page's videos.
    """
    check_size(upload)
    splits, folder = batches.splits, batches.runs / SPLITS_FOLDER
    kept = folder / f"{upload.stem}.json"
    source = _read(upload)
    origin = {"reference_writer": source.reference_writer} if source.reference_writer else {}
    entries = tuple(_with_known_videos(source.entries, batches.listed_splits()))
    samples = [entry for entry in entries if isinstance(entry, Sample)]
    if not samples:
        raise ValueError(f"{upload}: {next(e.reason for e in entries if isinstance(e, InvalidSample))}")
    for sample in samples:
        check_turns(sample)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as written:
        write_samples(Path(written, kept.name), samples, file_format="manifest", provenance=origin)  # slow if large
        with _ADDING:
            if upload.stem in splits and splits[upload.stem].entries != entries:  # it may be in use in another window
                raise ValueError(f"{upload}: the page has another split called {upload.stem}; rename the file")
            if kept.exists() and upload.stem not in splits:  # it could not be read when the page started
                raise ValueError(f"{upload}: the page keeps an unreadable split called {upload.stem}; rename the file")
            if not kept.exists():
                _make_room(batches, folder)
            os.replace(Path(written, kept.name), kept)
            batches.recent.own_split(kept, current_user.get())
            splits[upload.stem] = Split(path=kept, entries=entries, digest=digest_file(kept), provenance=origin)
    return upload.stem


def _make_room(batches: BatchContext, folder: Path) -> None:
    """Remove an unused upload if too many are stored. Raises ``ValueError`` if all of them were run."""
    stored = _list_kept(folder)
    if len(stored) < MAX_ADDED:
        return
    used = {split.path for split in map(batches.find_split, batches.run_names()) if split is not None}
    used |= {job.split.path for job in batches.jobs.active_jobs()}
    unused = sorted({*stored} - used, key=lambda path: path.stat().st_mtime)
    if not unused:
        raise ValueError(f"{MAX_ADDED} uploads with runs are stored already; remove some from {folder.name}")
    owners = {path: read_owner(path) for path in unused}
    ((user, _),) = Counter(owners.values()).most_common(1)
    oldest = next(path for path in unused if owners[path] == user)
    for path in (oldest, oldest.with_name(oldest.stem + ENDING), oldest.with_suffix(OWNER)):
        path.unlink(missing_ok=True)
    batches.splits.pop(oldest.stem, None)


def add_vocabulary(splits: Mapping[str, Split], upload: Path, *, folder: Path) -> str:
    """Keep an uploaded vocabulary beside the uploaded split of its name, in place of an older one; return that name.

    Raises ``ValueError`` for an invalid file, without such a split, and in place of that of another user.
    """
    name = upload.name.removesuffix(ENDING)
    kept = folder / f"{name}.json"
    if name not in splits or splits[name].path.resolve() != kept.resolve():
        raise ValueError(f"{upload}: no split called {name} was uploaded; upload {name}.json first")
    if (folder / upload.name).exists() and read_owner(kept) not in ("", current_user.get()):
        raise ValueError(f"{upload}: the split called {name} has a vocabulary of the user who uploaded it")
    read_vocabulary(upload.with_name(kept.name))
    with atomic_write(folder / upload.name, binary=True) as file:
        file.write(upload.read_bytes())
    return name


def read_kept_splits(splits: MutableMapping[str, Split], folder: Path) -> list[str]:
    """Add the stored uploads of a folder; return one sentence per unreadable split."""
    problems = []
    for path in _list_kept(folder):
        try:
            if path.stem not in splits:
                splits[path.stem] = _read(path)
        except ValueError as error:
            problems.append(f"The uploaded split {path.stem} is skipped: {error}.")
    return problems


def _list_kept(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.json") if not path.name.endswith(ENDING))


def _read(path: Path) -> Split:
    split = read_split(path)
    if not split.samples:
        bad = [entry.reason for entry in split.entries if isinstance(entry, InvalidSample)]
        raise ValueError(bad[0] if bad else f"{path}: has no videos")
    return split


def _with_known_videos(
    entries: Iterable[Sample | InvalidSample], splits: Mapping[str, Split]
) -> Iterator[Sample | InvalidSample]:
    """Yield the entries with videos of the page in place of their paths.

    An entry that is found by id gets the file and the start of that video; one that is found by file name keeps its
    own start.
    """
    found: defaultdict[str, set[Path]] = defaultdict(set)
    parts: defaultdict[str, set[tuple[Path, float | None]]] = defaultdict(set)
    for split in splits.values():
        for sample in split.samples:
            if sample.video_path is not None:
                path = Path(os.path.realpath(sample.video_path))
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
        reason = "several videos of the page have this name" if options else "this page has no such video"
        yield InvalidSample(
            video_id=entry.video_id,
            reason=f"{entry.video_id}: an uploaded split cannot use files of the server, and {reason}: {name}; "
            "start the page with --split for it",
        )


def add_path(batches: BatchContext, typed: str | None) -> Updates:
    """Add the split at a path, or read it again; return the status line and the choices of splits."""
    try:
        if not batches.takes_paths:
            raise ValueError("this page accepts no paths; upload the split")
        path, splits = Path(strip_text(typed or "")).expanduser(), batches.splits
        if not path.name:
            raise ValueError("the path is empty; enter that of a manifest, DST training JSON or ProAssist JSONL")
        if path.is_file():
            check_size(path)
        split = _read(path)
        if path.stem in splits and splits[path.stem].path.resolve() != path.resolve():
            raise ValueError(f"{path}: the page has another split called {path.stem}; rename the file")
        splits[path.stem] = split
        return _show(batches, path.stem)
    except (ValueError, OSError) as error:
        return Updates(status=status_line(as_sentence(error), is_problem=True))


def add_file(batches: BatchContext, upload: str | None) -> Updates:
    """Add an uploaded split, or the vocabulary of one; return as ``add_path``."""
    if upload is None:
        return Updates()
    try:
        folder = batches.runs / SPLITS_FOLDER
        if upload.endswith(ENDING):
            name = add_vocabulary(batches.splits, Path(upload), folder=folder)
            return Updates(status=status_line(f"The split “{name}” has this vocabulary now."))
        return _show(batches, add_upload(batches, Path(upload)))
    except (ValueError, OSError) as error:
        return Updates(status=status_line(as_sentence(error), is_problem=True))


def _show(batches: BatchContext, name: str) -> Updates:
    split = batches.splits[name]
    bad = [entry for entry in split.entries if isinstance(entry, InvalidSample)]
    said = f"The split “{name}” has {format_count(len(split.samples), 'video')}."
    said += f" Unusable records: {len(bad)}; the first: {bad[0].reason}." if bad else ""
    choices = gr.Dropdown(choices=list(batches.listed_splits()), value=name)
    return Updates(status=status_line(said, is_problem=bool(bad)), split=choices)
