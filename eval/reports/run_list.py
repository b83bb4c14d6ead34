"""The runs of a folder side by side: notes, the settings that differ, and scores, as they were measured.

Only ``run.json``, ``metrics.json`` and ``notes.json`` of each run are read, so that 500 runs are listed in a second.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Final

from stepscope.engine.io.files import Cell, replace_surrogates, replace_surrogates_in, to_json
from stepscope.eval.reports.search import TERM
from stepscope.eval.reports.table_files import read_metrics
from stepscope.eval.runs.folder import RunFolder, describe_rules, has_states
from stepscope.eval.runs.notes import RunNotes, read_notes
from stepscope.eval.runs.provenance import Provenance, hide_folders

COLUMNS: Final = ("run", "date", "origin", "group", "tags", "note", "archived")
"""The columns before the settings that differ and the scores."""
MAX_TERMS: Final = 100
_NOT_LISTED: Final = ("created", "devices", "signals", "source", "missing", "has_states")
"""Entries of ``run.json`` that are no settings, or that another one implies; nor are those with names of columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One run of a list."""

    name: str
    date: datetime
    """When its folder was first written; for a folder of an older version, when its settings were."""
    origin: str = ""
    thresholds: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """All settings as texts, those of the stream by their own names, and of how many videos the scores are."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Defined scores of ``metrics.json``."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    notes: RunNotes = field(default_factory=RunNotes)
    problem: str = ""
    """Why a file of the run could not be read; empty if all could."""


def list_runs(folders: Mapping[str, Path]) -> tuple[ListedRun, ...]:
    """Return run folders by name as a list, the newest first. A damaged file costs its own part of the run only."""
    return tuple(sorted((_read_run(name, path) for name, path in folders.items()), key=lambda run: run.date)[::-1])


def find_run_folders(parent: Path) -> dict[str, Path]:
    """Return the run folders in a folder by name."""
    return {path.name: path for path in sorted(parent.iterdir()) if (path / "run.json").is_file()}


def _read_run(name: str, path: Path) -> ListedRun:
    problems = list[str]()

    def read(reader: Any, *, default: Any) -> Any:
        try:
            return reader(path)
        except FileNotFoundError:
            return default
        except (ValueError, OSError) as error:
            problems.append(str(error).replace(f"{path}/", ""))
            return default

    settings = replace_surrogates_in(read(lambda folder: RunFolder(folder).settings(), default=None) or {})
    metrics = read(read_metrics, default={})
    notes = read(read_notes, default=RunNotes())
    num_videos = metrics.get("num_videos", 0)
    scored = {"videos scored": f"{num_videos} of {num_videos + len(metrics['errors'])}"} if metrics else {}
    writer = {"references": f"by {metrics['reference_writer']}"} if metrics.get("reference_writer") else {}
    intervals = {
        key: (found["low"], found["high"])
        for key, found in metrics.get("intervals", {}).items()
        if found["low"] is not None and found["high"] is not None
    }
    return ListedRun(
        name=name,
        date=_read_date(settings, path),
        origin=describe_origin(settings),
        thresholds=", ".join(map(" ".join, Provenance.of_settings(name, settings).thresholds)),
        settings=read(lambda _: _list_settings(settings), default={}) | scored | writer,
        scores={key: value for key, value in metrics.get("scores", {}).items() if value is not None},
        intervals=intervals,
        notes=notes,
        problem=replace_surrogates("; ".join(problems)),
    )


def _read_date(settings: Mapping[str, Any], path: Path) -> datetime:
    with suppress(ValueError, OverflowError):
        date = datetime.fromisoformat(str(settings.get("created")))
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC)
    file = path / "run.json"
    return datetime.fromtimestamp(file.stat().st_mtime if file.exists() else 0, UTC)


def describe_origin(settings: Mapping[str, Any]) -> str:
    """Return where a run comes from: imported results, a recorded model, or the name of its checkpoint."""
    if "imported" in settings:
        missing = settings.get("missing")
        return f"imported: {', '.join(missing)}" if isinstance(missing, Mapping) else "imported"
    if recorded := settings.get("recorded"):
        return f"recorded: {recorded.get('model', '')}"
    return PurePath(str(settings.get("checkpoint", ""))).name


def _list_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a run, and whether it has states: without them its failures are those of responses."""
    return {
        **dict(_flatten({**settings, "rules": describe_rules(settings)})),
        "states": "yes" if has_states(settings) else "no",
    }


def _flatten(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of settings; those in ``config``, ``versions`` and ``recorded`` by their own names."""
    for name, value in hide_folders(settings).items():
        if name in ("config", "versions", "recorded") and isinstance(value, Mapping):
            yield from _flatten(value)
        elif name not in (*COLUMNS, *_NOT_LISTED) and value not in (None, "", [], {}):
            yield name, value if isinstance(value, str) else to_json(value)


def find_differing(runs: Sequence[ListedRun]) -> list[str]:
    """Return the names of the settings of which runs have two values or more. A setting that a run lacks is unknown."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    return [name for name in names if len({run.settings[name] for run in runs if name in run.settings}) > 1]


def filter_runs(runs: Iterable[ListedRun], query: str) -> list[ListedRun]:
    """Return the runs that all terms of a query match; an empty query matches every one.

    A term is a word or ``"a phrase"`` of the name, note, tags, group or settings, or ``tag:`` or ``group:`` with all
    of its name, or a setting with its number, such as ``seed:3``, or its beginning; ``-`` before it excludes its
    matches. Raises ``ValueError`` for more than ``MAX_TERMS`` terms.
    """
    terms = TERM.findall(query)
    if len(terms) > MAX_TERMS:
        raise ValueError(f"a search of runs has at most {MAX_TERMS} terms; got {len(terms):,}")
    return [run for run in runs if all(_matches(run, *term[1:]) != bool(term[0]) for term in terms)]


def _matches(run: ListedRun, name: str, _: str, value: str, words: str) -> bool:
    wanted = (value or words).strip('"').casefold()
    if not name:
        texts = (run.name, run.origin, run.notes.note, run.notes.group, *run.notes.tags, *run.settings.values())
        return any(wanted in text.casefold() for text in texts)
    if name in ("tag", "group"):
        return wanted in map(str.casefold, run.notes.tags if name == "tag" else (run.notes.group,))
    found = run.settings.get(name, "").casefold()
    with suppress(ValueError):
        return float(found) == float(wanted)
    return found.startswith(wanted)


def tabulate_runs(runs: Sequence[ListedRun], metrics: Sequence[str]) -> list[dict[str, Cell]]:
    """Return a row per run: ``COLUMNS``, the settings that differ, and the scores, None if undefined."""
    names = find_differing(runs)
    return [
        {
            "run": run.name,
            "date": run.date.astimezone().strftime("%Y-%m-%d %H:%M"),
            "origin": run.origin,
            "group": run.notes.group,
            "tags": ", ".join(run.notes.tags),
            "note": run.notes.note,
            "archived": "yes" if run.notes.archived else "",
            **{name: run.settings.get(name, "") for name in names},
            **{name: run.scores.get(name, math.nan) for name in metrics},
        }
        for run in runs
    ]
