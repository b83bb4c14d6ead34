"""The notes of people on a run, in ``notes.json`` of its folder: a note, tags, a group, and whether it is archived.

They are no part of what was measured: no score, comparison or resumed run reads them.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from stepscope.engine.io.files import replace_surrogates, strip_text, write_json
from stepscope.engine.io.json_records import read_record

NOTES_FILE: Final = "notes.json"
MAX_NOTE_CHARS: Final = 10_000
MAX_LABEL_CHARS: Final = 60
"""Greatest length of a tag, and of the name of a group."""
MAX_TAGS: Final = 20
_MAX_FILE_BYTES: Final = 2**18
"""Largest file that is read; the longest notes need less."""
_LOCK: Final = ".notes.lock"
_LOCK_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotes:
    """Notes on one run; a character that UTF-8 cannot encode becomes ``?``, so that lists can be sent and printed."""

    note: str = ""
    tags: tuple[str, ...] = ()
    group: str = ""
    archived: bool = False
    """Whether lists leave the run out; nothing is deleted."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "note", replace_surrogates(self.note))
        object.__setattr__(self, "tags", tuple(map(replace_surrogates, self.tags)))
        object.__setattr__(self, "group", replace_surrogates(self.group))


def read_notes(run: Path) -> RunNotes:
    """Return the notes of a run folder, empty without a file. Raises ``ValueError`` for a damaged file."""
    path = run / NOTES_FILE
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise ValueError(f"{path} is larger than {_MAX_FILE_BYTES // 1024} KiB; delete or shorten it")
        return read_record(RunNotes, path)
    except FileNotFoundError:
        return RunNotes()


def change_notes(run: Path, change: Callable[[RunNotes], RunNotes]) -> RunNotes:
    """Apply a change to the present notes of a run folder, write them atomically, and return them.

    Two writers follow one another, so that neither change is lost. Raises ``ValueError`` for notes that are too long, a
    damaged file (which is kept), a folder that is no run, and a folder that cannot be written.
    """
    if not (run / "run.json").is_file():
        raise ValueError(f"{run} is no run folder")
    try:
        with FileLock(run / _LOCK, timeout=_LOCK_TIMEOUT_S):
            try:
                notes = _check(change(read_notes(run)))
                write_json(run / NOTES_FILE, asdict(notes))
            finally:
                (run / _LOCK).unlink(missing_ok=True)  # before the release: afterwards it may be another writer's lock
    except Timeout as error:
        raise ValueError(f"the notes of {run.name} are being written by another program; try again") from error
    except OSError as error:
        raise ValueError(f"the notes of {run.name} cannot be written: {error.strerror}") from error
    return notes


def split_tags(texts: Sequence[str]) -> tuple[str, ...]:
    """Return tags without repetitions; a comma separates two. Example: ``("a, b", "a")`` gives ``("a", "b")``."""
    tags = (_to_label(tag) for text in texts for tag in text.split(","))
    return tuple(dict.fromkeys(filter(None, tags)))


def _to_label(text: str) -> str:
    """Return a text on one line; a quote, which ends a phrase of a search, becomes an apostrophe."""
    return " ".join(strip_text(text).replace('"', "'").split())


def _check(notes: RunNotes) -> RunNotes:
    """Return notes without blanks at the ends of their texts. Raises ``ValueError`` for too long ones."""
    note, tags, group = strip_text(notes.note), split_tags(notes.tags), _to_label(notes.group)
    if len(note) > MAX_NOTE_CHARS:
        raise ValueError(f"a note has at most {MAX_NOTE_CHARS:,} characters; got {len(note):,}")
    if len(tags) > MAX_TAGS:
        raise ValueError(f"a run has at most {MAX_TAGS} tags; got {len(tags)}")
    for kind, label in [*(("tag", tag) for tag in tags), ("group", group)]:
        if len(label) > MAX_LABEL_CHARS:
            raise ValueError(f"a {kind} has at most {MAX_LABEL_CHARS} characters; got {len(label)}: {label[:20]}...")
    return RunNotes(note=note, tags=tags, group=group, archived=notes.archived)
