"""Splits that users add in the batch tab while the page runs: by path, on a local page only, or as an upload.

An uploaded split must not access files of the server. Its videos are looked up in the splits of the page, by file name
or id; records with unknown videos are reported as unusable. The split is stored as a manifest beside the run folders,
so that its runs can be opened after a restart; its vocabulary, uploaded after it, stays beside it.
"""

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Final

import gradio as gr

from stepscope.app.batch.new_run.annotated import find_annotations, list_drawn, make_samples, name_drawn
from stepscope.app.controls.widgets import Updates
from stepscope.app.core.batch_context import SPLITS_FOLDER, BatchContext
from stepscope.app.core.places import read_owner
from stepscope.app.core.references import check_size, check_turns
from stepscope.app.formatting import as_sentence
from stepscope.app.player.views import status_line
from stepscope.app.server.identity import current_user
from stepscope.engine.errors import EngineError
from stepscope.engine.io.files import atomic_write, digest_file, strip_text
from stepscope.engine.plurals import format_count
from stepscope.eval.data.loading import VideoFolder, read_split
from stepscope.eval.data.samples import InvalidSample, Sample, Split
from stepscope.eval.data.vocabulary import ENDING, read_vocabulary
from stepscope.eval.data.writers import write_samples
from stepscope.eval.datasets.reading import UnknownFormError
from stepscope.eval.datasets.segments import Annotations
from stepscope.eval.runs.folder import OWNER

MAX_ADDED: Final = 50
"""Maximum number of stored uploads. Beyond it, the user who has the most unused ones loses the oldest of them."""

_ADDING: Final = Lock()


def add_upload(batches: BatchContext, uploads: Sequence[Path], *, draws: bool = False) -> tuple[str, str]:
    """Add an uploaded split, or one of uploaded annotations; return its name, and what was read of annotations.

    Raises ``ValueError`` if the files are none, have the name of a different one, or none of the page's videos.
    """
    for upload in uploads:
        check_size(upload)
    source = _read_any(uploads)
    if isinstance(source, Annotations):
        return _add_annotated(batches, source, uploads, draws=draws)
    origin = source.origin
    entries = tuple(_with_known_videos(source.entries, batches.listed_splits()))
    return _keep(batches, uploads[0], entries, origin), ""


def _read_any(files: Sequence[Path]) -> Annotations | Split:
    """Return the split of a file, or the annotations of files. Raises ``ValueError`` for files of another form."""
    problem = None
    if len(files) == 1:
        try:
            return _read(files[0])
        except ValueError as error:
            problem = error
        if problem.__cause__ is not None and files[0].suffix in (".json", ".jsonl"):  # it is no JSON
            raise problem
    try:
        return find_annotations(files)
    except ValueError as error:
        is_unknown = isinstance(error.__cause__, UnknownFormError)
        if problem is None or problem.__cause__ is not None or not is_unknown:
            raise
    raise problem  # a split with unusable records


def _add_annotated(
    batches: BatchContext,
    found: Annotations,
    files: Sequence[Path],
    *,
    draws: bool,
    videos: VideoFolder | None = None,
) -> tuple[str, str]:
    """Add the split of annotations under the name of their first file; return the name, and what was read."""
    kept = batches.runs / SPLITS_FOLDER / f"{files[0].stem}.json"
    drawn = name_drawn(kept, files)
    try:
        made = make_samples(found, batches.listed_splits(), videos=videos, draw_in=drawn if draws else None)
        invalid = (InvalidSample(video_id=name, reason=f"{name}: {why}") for name, why in made.problems.items())
        origin = {"annotations": made.provenance()}
        return _keep(batches, files[0], (*made.samples, *invalid), origin), made.describe()
    finally:
        if kept.stem not in batches.splits or drawn.resolve() not in list_drawn(batches.splits[kept.stem]):  # refused
            shutil.rmtree(drawn, ignore_errors=True)


def _keep(
    batches: BatchContext,
    upload: Path,
    entries: tuple[Sample | InvalidSample, ...],
    origin: Mapping[str, Any],
) -> str:
    """Store the samples of an upload as a manifest, for all windows; return the name of the split."""
    splits, folder = batches.splits, batches.runs / SPLITS_FOLDER
    kept = folder / f"{upload.stem}.json"
    samples = [entry for entry in entries if isinstance(entry, Sample)]
    if not samples:
        raise ValueError(f"{upload}: {next(e.reason for e in entries if isinstance(e, InvalidSample))}")
    for sample in samples:
        check_turns(sample)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as written:
        write_samples(Path(written, kept.name), samples, file_format="manifest", provenance=origin)  # slow if large
        with _ADDING:
            old = splits.get(kept.stem)
            if old is not None and old.entries != entries and not _is_replaceable(batches, old, kept):
                raise ValueError(f"{upload}: the page has another split called {kept.stem}; rename the file")
            if kept.exists() and kept.stem not in splits:  # it could not be read when the page started
                raise ValueError(f"{upload}: the page keeps an unreadable split called {kept.stem}; rename the file")
            if not kept.exists():
                _make_room(batches, folder)
            os.replace(Path(written, kept.name), kept)
            batches.recent.own_split(kept, current_user.get())
            new = Split(path=kept, entries=entries, digest=digest_file(kept), provenance=origin)
            splits[kept.stem] = new
            _remove_drawn(old, keep=list_drawn(new))
    return kept.stem


def _is_replaceable(batches: BatchContext, old: Split, kept: Path) -> bool:
    """Return whether a split is an upload of this user, or of this machine's, which no run uses."""
    return kept not in _list_used(batches) and _is_own(batches, old, kept)


def _is_own(batches: BatchContext, split: Split, kept: Path) -> bool:
    if split.path.resolve() != kept.resolve():
        return False
    owner = read_owner(kept)
    return owner == current_user.get() and (bool(owner) or batches.takes_paths)


def _list_used(batches: BatchContext) -> set[Path]:
    used = {split.path for split in map(batches.find_split, batches.run_names()) if split is not None}
    return used | {job.split.path for job in batches.jobs.active_jobs()}


def _remove_drawn(split: Split | None, *, keep: Collection[Path] = ()) -> None:
    for drawn in set() if split is None else list_drawn(split) - {*keep}:
        shutil.rmtree(drawn, ignore_errors=True)


def _make_room(batches: BatchContext, folder: Path) -> None:
    """Remove an unused upload if too many are stored. Raises ``ValueError`` if all of them were run."""
    stored = _list_kept(folder)
    if len(stored) < MAX_ADDED:
        return
    unused = sorted({*stored} - _list_used(batches), key=lambda path: path.stat().st_mtime)
    if not unused:
        raise ValueError(f"{MAX_ADDED} uploads with runs are stored already; remove some from {folder.name}")
    owners = {path: read_owner(path) for path in unused}
    ((user, _),) = Counter(owners.values()).most_common(1)
    oldest = next(path for path in unused if owners[path] == user)
    _remove(batches, oldest)


def _remove(batches: BatchContext, kept: Path) -> None:
    for path in (kept, kept.with_name(kept.stem + ENDING), kept.with_suffix(OWNER)):
        path.unlink(missing_ok=True)
    _remove_drawn(batches.splits.pop(kept.stem, None))


def delete_upload(batches: BatchContext, name: str | None) -> Updates:
    """Delete an upload of this user that no run uses; show the status and the splits that are left."""
    if not name:  # it was not confirmed
        return Updates()
    kept = batches.runs / SPLITS_FOLDER / f"{name}.json"
    try:
        with _ADDING:
            if name not in batches.splits or not _is_own(batches, batches.splits[name], kept):
                raise ValueError(f"the split “{name}” is no upload of yours, so it stays")
            if kept in _list_used(batches):
                raise ValueError(f"the split “{name}” has runs, so it stays")
            _remove(batches, kept)
    except (ValueError, OSError) as error:
        return Updates(status=status_line(as_sentence(error), is_problem=True))
    left = list(batches.listed_splits())
    split = gr.Dropdown(choices=left, value=next(iter(left), None))
    return Updates(status=status_line(f"The split “{name}” is deleted."), split=split)


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


def add_path(batches: BatchContext, typed: str | None, draws: bool = False) -> Updates:
    """Add the split at a path, or read it again; show the status and the choices of splits."""
    try:
        if not batches.takes_paths:
            raise ValueError("this page accepts no paths; upload the split")
        path, splits = Path(strip_text(typed or "")).expanduser(), batches.splits
        if not path.name:
            raise ValueError("the path is empty; enter that of a split or of annotations")
        if path.is_file():
            check_size(path)
        source = _read_any([path])
        if isinstance(source, Annotations):
            beside = VideoFolder(path.parent)
            return _show(batches, *_add_annotated(batches, source, [path], draws=draws, videos=beside))
        if path.stem in splits and splits[path.stem].path.resolve() != path.resolve():
            raise ValueError(f"{path}: the page has another split called {path.stem}; rename the file")
        splits[path.stem] = source
        return _show(batches, path.stem)
    except (EngineError, ValueError, OSError) as error:
        return Updates(status=status_line(as_sentence(error), is_problem=True))


def add_files(batches: BatchContext, uploads: Sequence[str] | None, draws: bool = False) -> Updates:
    """Add an uploaded split, the vocabulary of one, or a split of annotations; show as ``add_path``."""
    files = [Path(upload) for upload in uploads or ()]
    if not files:
        return Updates()
    try:
        folder = batches.runs / SPLITS_FOLDER
        if len(files) == 1 and files[0].name.endswith(ENDING):
            name = add_vocabulary(batches.splits, files[0], folder=folder)
            return Updates(status=status_line(f"The split “{name}” has this vocabulary now."))
        return _show(batches, *add_upload(batches, files, draws=draws))
    except (EngineError, ValueError, OSError) as error:
        return Updates(status=status_line(as_sentence(error), is_problem=True))


def _show(batches: BatchContext, name: str, read: str = "") -> Updates:
    """Show the chosen split ``name``, and if it has annotations what was read, with its videos."""
    split = batches.splits[name]
    bad = [entry for entry in split.entries if isinstance(entry, InvalidSample)]
    said = f"The split “{name}” has {format_count(len(split.samples), 'video')}."
    said += f" {read}." if read else ""
    said += f" Unusable records: {len(bad)}; the first: {bad[0].reason}." if bad else ""
    choices = gr.Dropdown(choices=list(batches.listed_splits()), value=name)
    view = Updates(status=status_line(said, is_problem=bool(bad)), split=choices)
    return Updates(view, views=gr.Tabs(selected="Split")) if read else view
