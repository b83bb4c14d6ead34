"""Search among the moments of runs: words and fields in one line of text."""

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pandas as pd

from stepscope.engine.io.files import finish_files, open_text, unescape_formula
from stepscope.engine.io.json_records import reading, short_repr
from stepscope.engine.plurals import format_count
from stepscope.eval.annotations.corrections import VERDICTS
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.runs.folder import RunFolder
from stepscope.eval.runs.roots import DIAGNOSIS_FILE, read_roots

MAX_QUERY_CHARS: Final = 500
_TEXTS: Final = ("video_id", "what", "failure", "mistake", "text", "reference", "step", "cause")
_LABELS: Final = ("video_id", "what", "failure", "step", "cause", "class")
DIAGNOSED: Final = ("class", "origin", "root_time_s")
"""Columns that ``moments.csv`` lacks: they are of the diagnosis of the run."""
_ORIGINS: Final = ("root", "consequence")
_COLUMNS: Final = {
    "is": "what",
    "failure": "failure",
    "cause": "cause",
    "class": "class",
    "step": "step",
    "video": "video_id",
    "time": "time_s",
    "delay": "delay_s",
    "prob": "probability",
    "margin": "margin",
    "latency": "latency_ms",
    "root": "root_time_s",
}
_NUMBERS: Final = tuple(name for name in _COLUMNS.values() if name not in (*_TEXTS, "class"))
_MARKS: Final = ("verdict", "tag")
_KNOWN: Final[Mapping[str, Sequence[str]]] = {
    "is": ("message", "update", "state", "user", "near message", "near update"),
    "failure": (*FAILURE_KINDS, "any", *_ORIGINS),
    "verdict": VERDICTS,
}
"""Values of the fields with a closed list."""
_OPEN: Final = ("cause", "step", "video", "class")
"""The fields whose values are those of the moments."""
_MAX_VALUES: Final = 4
"""So many of them are named where a term has another one."""
ABSENT: Final = "absent"
"""Attribute of an empty table of found moments: which term has a value that no moment has."""
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
TERM: Final = re.compile(r'(-?)(?:(\w+)(:|>=|<=|>|<)("[^"]*"|\S*)|("[^"]*"|\S+))')
DIAGNOSED_TERM: Final = re.compile(r"(?<!\S)-?(class:|root[<>]|failure:(root|consequence))")
"""A term of a diagnosis."""
Marks = Mapping[tuple[str, int, str], Collection[str]]
"""Verdicts, tags and causes by reviewers, such as ``tag: blurry``, by video, milliseconds and text of the event."""


def read_moments(folder: Path) -> pd.DataFrame:
    """Read ``moments.csv``, in the order of the split and by time, with a column ``words`` of both texts.

    Failures have the class and the time of their root, if the run has a diagnosis that is not stale. A table that did
    not change is kept in memory. Raises ``ValueError`` for an invalid file, and if there is none.
    """
    finish_files(folder)
    path = folder / "moments.csv"
    try:
        found = path.stat()
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise ValueError(f"there is no run folder {folder}; the query comes first, then the folders") from error
        raise ValueError(f"{folder.name} has no table of moments; score it again with `stepscope score`") from error
    diagnosis = folder / DIAGNOSIS_FILE
    diagnosed_ns = diagnosis.stat().st_mtime_ns if diagnosis.exists() else 0
    return _read(path, found.st_mtime_ns, found.st_size, diagnosed_ns)


def describe_hits(found: pd.DataFrame) -> str:
    """Return how many moments were found, in how many videos and runs, and the term that none can match."""
    num_runs = found["run"].nunique()
    videos = format_count(found["video_id"].nunique(), "video")
    absent = f": {found.attrs[ABSENT]}" if found.attrs.get(ABSENT) else ""
    of_runs = f" of {num_runs} runs" if num_runs > 1 else ""
    return f"{format_count(len(found), 'moment')} in {videos}{of_runs}{absent}"


@lru_cache(maxsize=8)
def _read(path: Path, _changed_ns: int, _size: int, _diagnosed_ns: int) -> pd.DataFrame:
    types = dict.fromkeys(_TEXTS, "str") | {name: "float" for name in _NUMBERS if name not in DIAGNOSED}
    with reading(path), open_text(path, newline="") as file:
        table = pd.read_csv(
            file, dtype=types, keep_default_na=False, na_values={name: [""] for name in types if name in _NUMBERS}
        )
        if missing := [name for name in types if name not in table]:
            raise ValueError(f"the column {missing[0]} is missing")
    table = _trace(table, RunFolder(path.parent))
    labels = dict.fromkeys(_LABELS, "category")
    table = table.astype(labels)  # each is unescaped once
    for name in _TEXTS:
        table[name] = table[name].map(unescape_formula)
    table["words"] = (table["text"] + "\n" + table["reference"]).str.casefold()
    return table.astype(labels)  # also where two labels have become equal


def _trace(table: pd.DataFrame, run: RunFolder) -> pd.DataFrame:
    """Return a table with the class and the time of the root of each failure, and whether it is a consequence."""
    known = {}
    for video_id, found in (read_roots(run) or {}).items():
        for failure in () if found.stale else found.failures:
            root, origin = found.roots[failure.root], _ORIGINS[failure.is_consequence]
            known[video_id, failure.kind, round(1000 * failure.time_s)] = root.cause, origin, root.time_s
    ids = table["video_id"].map(unescape_formula) if known else table["video_id"]
    keys = zip(ids, table["failure"], (1000 * table["time_s"]).round(), strict=True)
    rows = [known.get(key, ("", "", math.nan)) for key in keys]
    return table.assign(**{name: [row[place] for row in rows] for place, name in enumerate(DIAGNOSED)})


def search_folders(runs: Mapping[str, Path], query: str, *, marks: Marks | None = None) -> pd.DataFrame:
    """Return the matching moments of run folders by name, with a column ``run`` and without ``words``.

    An empty table may have the attribute ``ABSENT``. Raises ``ValueError`` as ``search`` and ``read_moments``, and for
    a term of a diagnosis that no run has.
    """
    tables = [read_moments(folder) for folder in runs.values()]
    if DIAGNOSED_TERM.search(query) and not any((table["origin"] != "").any() for table in tables):
        raise ValueError("classes and roots need a diagnosis that is not stale: explain the run first")
    found = [search(table, query, marks=marks).drop(columns="words") for table in tables]
    hits = pd.concat(found, keys=list(runs), names=["run"]).reset_index("run").reset_index(drop=True)
    if not len(hits):
        hits.attrs[ABSENT] = _find_absent(tables, query, marks)
    return hits


def _find_absent(tables: Sequence[pd.DataFrame], query: str, marks: Marks | None) -> str:
    """Return which term has a cause, step, video or class that no moment has; empty if none has."""
    for term in TERM.finditer(query):
        excluded, field, _, value, _ = (group.strip('"') for group in term.groups(default=""))
        if excluded or field not in _OPEN or any(len(search(table, term[0], marks=marks)) for table in tables):
            continue
        labels = [str(label) for table in tables for label in table[_COLUMNS[field]].unique()]
        known = [
            *dict.fromkeys(one for label in labels for one in (label.split() if field == "step" else [label]) if one)
        ]
        more = f" and {len(known) - _MAX_VALUES} more" if len(known) > _MAX_VALUES else ""
        values = f"values are {', '.join(known[:_MAX_VALUES])}{more}" if known else f"no moment has a {field}"
        return f"{field} has no value {short_repr(value)} in these moments; {values}"
    return ""


def search(moments: pd.DataFrame, query: str, *, marks: Marks | None = None) -> pd.DataFrame:
    """Return the moments that all terms of a query match; an empty query matches every one.

    A term is a word or ``"a phrase"`` in the message or the reference, ``field:value`` or ``field>2``;
    ``-`` before it excludes its matches. Fields are ``is``, ``failure`` (a kind, ``any``, ``root`` or ``consequence``),
    ``class`` and ``root`` (class and time of its root), ``cause``, ``step``, ``video``, ``verdict``, ``tag``, ``time``,
    ``delay``, ``latency``, ``prob``, ``margin``, and ``near:0.05``, at most this far from the threshold.

    Raises ``ValueError`` for a term that cannot be read.
    """
    if len(query) > MAX_QUERY_CHARS:
        raise ValueError(f"a search has at most {MAX_QUERY_CHARS} characters; got {len(query)}")
    found = pd.Series(data=True, index=moments.index)
    for excluded, field, sign, value, words in TERM.findall(query):
        _check_term(field, sign, value, words)
        matches = _match(moments, field, sign, value.strip('"'), marks) if field else _contain(moments, words)
        found &= ~matches if excluded else matches
    return moments[found]


def _check_term(field: str, sign: str, value: str, words: str) -> None:
    """Raise ``ValueError`` for a term without a value or a word, and for an operator, which a search does not have."""
    if field and value in ("", '"'):
        raise ValueError(f"{field}{sign} needs a value")
    if not field and not words.strip('"-'):
        raise ValueError(f"{words} is no word; write one, or a term such as failure:missed")
    if words in ("AND", "OR", "NOT"):
        raise ValueError(f'{words} is read as a word: all terms must match, and - excludes; write "{words}" for it')


def _contain(moments: pd.DataFrame, words: str) -> "pd.Series[bool]":
    return moments["words"].str.contains(words.strip('"').casefold(), regex=False)


def _match(moments: pd.DataFrame, field: str, sign: str, value: str, marks: Marks | None) -> "pd.Series[bool]":
    if field == "near" and sign == ":":
        return moments["margin"].abs() <= _number(field, value)
    if field in _MARKS and sign == ":":
        if field == "verdict":
            _check_known(field, value, value.casefold() in VERDICTS)
        if marks is None:
            raise ValueError(f"{field}: is found on the page, which has the reviews; leave it out")
        return _have_mark(moments, f"{field}: {value}", marks)
    column = _COLUMNS.get(field)
    if column is None or (sign != ":") != (column in _NUMBERS):
        labels = ", ".join(f"{name}:" for name in (*_COLUMNS, *_MARKS, "near") if _COLUMNS.get(name) not in _NUMBERS)
        numbers = ", ".join(f"{name}>" for name in _COLUMNS if _COLUMNS[name] in _NUMBERS)
        raise ValueError(
            f"there is no field {short_repr(field + sign)}; fields are {labels}, and with > or < {numbers}"
        )
    if column in _NUMBERS:
        return pd.Series(_COMPARE[sign](moments[column], _number(field, value)))
    cells, wanted = moments[column], value.casefold()
    if field in _KNOWN:
        _check_known(field, value, any(name.startswith(wanted) for name in _KNOWN[field]))
    if field == "failure" and wanted == "any":
        return cells != ""
    if field == "failure" and wanted in _ORIGINS:
        return moments["origin"] == wanted
    marked = _have_mark(moments, f"cause: {value}", marks or {}) if field == "cause" else False  # by a reviewer
    categories = list(map(str, cells.cat.categories))
    is_whole = wanted in {*_KNOWN.get(field, ()), *map(str.casefold, categories)}
    named = [label for label in categories if _is_named(field, label.casefold(), wanted, is_whole=is_whole)]
    return cells.isin(named) | marked


def _check_known(field: str, value: str, is_known: bool) -> None:
    if not is_known:
        raise ValueError(f"{field} has no value {short_repr(value)}; values are {', '.join(_KNOWN[field])}")


def _is_named(field: str, label: str, wanted: str, *, is_whole: bool) -> bool:
    """Return whether a label is the wanted one: a step of it, a part of a video's id, or else the beginning of it.

    ``is_whole`` says that the wanted one is a label by itself: ``missed`` is no ``missed update``.
    """
    if field == "step":
        return wanted in label.split()
    if field == "class":
        return wanted != "" and wanted in label
    if field == "video":
        return wanted in label
    return label == wanted if is_whole or not wanted else label.startswith(wanted)


def _number(field: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise ValueError(f"{field} is compared with a number; got {short_repr(value)}") from error


def _have_mark(moments: pd.DataFrame, mark: str, marks: Marks) -> "pd.Series[bool]":
    """Return which moments are events with a mark; a wrong state is named by its steps."""
    wanted = {
        (video_id, millis, text)
        for (video_id, millis, text), found in marks.items()
        if any(one.casefold() == mark.casefold() for one in found)
    }
    millis = (moments["time_s"] * 1000).round()
    is_near = moments["video_id"].isin({name[0] for name in wanted}) & millis.isin({name[1] for name in wanted})
    near = moments[is_near]  # few rows, compared one by one
    texts = near["text"].where(near["text"] != "", near["reference"])
    texts = texts.where(near["what"] != "state", near["step"].astype("str").str.replace(" ", ", "))
    names = zip(near["video_id"], millis[is_near], texts, strict=True)
    found = [at for at, name in zip(near.index, names, strict=True) if name in wanted]
    return pd.Series(moments.index.isin(found), index=moments.index)
