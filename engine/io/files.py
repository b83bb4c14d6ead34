"""Reading and writing of files and text: atomic writes, JSON and CSV.

External text may contain a lone surrogate (half a pair). JSON files escape it, so that it loads unchanged. Where only
UTF-8 is possible (models, tables, XML, replies to a browser), and in texts of splits and reviewers, it becomes ``?``.
"""

import codecs
import csv
import errno
import hashlib
import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO, TextIOWrapper
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final, TextIO

Cell = str | float | Sequence[str] | None
"""A value of a CSV file; a list of texts is written as JSON."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and full-width
_ESCAPED_STARTS = (*_FORMULA_STARTS, "'")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk; a write does not name its file."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_BYTE_ORDER_MARK = "\ufeff"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, with the names of their encodings. Notepad writes that of UTF-8, and of UTF-16 as "Unicode"."""
MAX_TEXT_BYTES: Final = 2**30
"""Largest text that is read; its records need several times as much memory."""
_CONTROLS = "".join(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if not chr(code).isspace())
INVISIBLE: Final = _CONTROLS + "".join(
    map(chr, [0xAD, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])
)
"""Characters without a shape, such as byte order marks; word processors, web pages and DOS put them beside words."""
BLANKS: Final = "".join(filter(str.isspace, map(chr, range(0x3001)))) + INVISIBLE
"""Spaces and characters without a shape."""


class EncodingError(ValueError):
    """A text of another encoding than UTF-8, or than a byte order mark names."""


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading, without waiting for the writer of a pipe.

    Raises ``OSError`` with one sentence for a pipe or a device, whose reading may never end, and for a folder.
    """
    return open(path, "rb", opener=_open_regular)


def check_regular(path: Path) -> None:
    """Raise ``OSError`` as ``open_file`` does; for libraries that open a path themselves."""
    open_file(path).close()


def _open_regular(name: str, flags: int) -> int:
    handle = os.open(name, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such pipes
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", name)


def find_real_path(path: Path) -> Path:
    """Return the path of an existing file without links.

    Raises ``OSError``, also for a loop of links, for which ``Path.resolve`` raises ``RuntimeError``.
    """
    return Path(os.path.realpath(path, strict=True))


@contextmanager
def open_text(path: Path, *, newline: str | None = None) -> Iterator[TextIO]:
    """Open a text that a person or another program may have written: UTF-8, or the encoding of its byte order mark.

    The mark is not part of the text. ``newline`` is that of ``open``. Raises ``OSError`` as ``open_file`` does and for
    more than ``MAX_TEXT_BYTES``, and, while the text is read, ``EncodingError`` with one sentence.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_TEXT_BYTES:
            limit = f"it has {size / 2**30:.1f} GiB, more than the limit of {MAX_TEXT_BYTES // 2**30} GiB"
            raise OSError(errno.EFBIG, limit, str(path))
        encoding = _find_encoding(file.peek(4)[:4])
        try:
            with TextIOWrapper(file, encoding=encoding, newline=newline) as text:
                yield text
        except UnicodeError as error:
            raise EncodingError(_describe_encoding(encoding)) from error


def read_text(path: Path) -> str:
    """Return the text of a file of ``open_text``, its lines ended by a newline alone."""
    with open_text(path) as text:
        return text.read()


def _find_encoding(start: bytes) -> str:
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return encoding
    if len(start) > 1 and 0 in start[:2]:  # a Latin letter of UTF-16
        raise EncodingError("it is UTF-16 text without a byte order mark; save it as UTF-8")
    return "utf-8"


def _describe_encoding(encoding: str) -> str:
    name = encoding.removesuffix("-sig").upper()
    return f"it is not {name} text{', as its byte order mark says' * (name != 'UTF-8')}; save it as UTF-8"


def strip_text(text: str) -> str:
    """Return a typed or pasted text without blanks and invisible characters at its ends."""
    return text.strip(BLANKS)


_TURNS: Final = str.maketrans({code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))})


def show_turns(text: str) -> str:
    """Return a text whose marks that turn the order of what follows, such as U+202E, are written as escapes."""
    return text.translate(_TURNS)


def replace_surrogates(text: str) -> str:
    """Return the text with each lone surrogate replaced by ``?``, so that UTF-8 can encode it."""
    return _SURROGATES.sub("?", text)


def replace_surrogates_in(content: Any) -> Any:
    """Return a JSON value with ``replace_surrogates`` applied to every key and string in it."""
    return _map_values(content, lambda value: replace_surrogates(value) if isinstance(value, str) else value)


def to_json(content: object, *, indent: int | None = None) -> str:
    """Return JSON that UTF-8 can encode and that loads unchanged. Raises ``ValueError`` for nan and infinity."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent)
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def load_json(text: str) -> Any:
    """Return the value of a JSON text, such as a line of files that were joined, each with its byte order mark.

    Raises ``ValueError`` with one line, also for nesting that is too deep, and a key that an object has twice.
    """
    if not strip_text(text):
        raise ValueError("it is empty")
    try:
        return json.loads(text.removeprefix(_BYTE_ORDER_MARK), object_pairs_hook=_make_object)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except json.JSONDecodeError as error:
        found = error.doc[error.pos : error.pos + 1]
        if found in " \t\r\n" or found not in BLANKS:
            if cure := _find_cure(error):
                raise ValueError(f"{error}; {cure}") from None
            raise
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{place} has the invisible character U+{ord(found):04X}; remove it") from None


def _find_cure(error: json.JSONDecodeError) -> str:
    if _SUBTITLES.match(error.doc):
        return "these are subtitles, whose files end in .srt or .vtt"
    if error.msg == "Extra data":
        return "several values are joined here; write one list, or each on a line of its own"
    is_trailing = error.doc[: error.pos].rstrip().endswith(",") and error.doc[error.pos : error.pos + 1] in ("]", "}")
    return "remove the comma before it" if is_trailing else ""


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"an object has the key {twice[:80]!r} twice; keep one of them, or rename one")
    return found


_SUBTITLES: Final = re.compile(r"\ufeff?(?:WEBVTT|\s*\d+\s*\n\d+:\d\d)")
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_make_object)


def load_json_lines(text: str) -> Iterator[tuple[int, Any, str]]:
    """Yield the line, from 1, of each JSON value of a text, the value, and its problem, empty for a valid one.

    A value may extend over lines, and several may share one, up to the first line that does not begin a value. From
    there on each line is a value; but after one that extended over lines, nothing is.
    """
    at, number, can_join, has_long = 0, 1, True, False
    while at < len(text):
        end = end_of_line if (end_of_line := text.find("\n", at)) >= 0 else len(text)
        if strip_text(line := text[at:end]):
            value, problem = None, ""
            try:
                value = load_json(line.lstrip(INVISIBLE))
            except ValueError as error:
                problem = str(error)
                if can_join:
                    try:
                        value, end = _DECODER.raw_decode(text, at + len(line) - len(line.lstrip(BLANKS)))
                        problem = ""
                    except (ValueError, RecursionError) as joined:
                        can_join = False
                        problem = problem if isinstance(joined, json.JSONDecodeError | RecursionError) else str(joined)
            has_long = has_long or "\n" in text[at:end]
            if problem and has_long:
                yield number, value, f"{problem}; nothing after it was read"
                return
            yield number, value, problem
        number += text.count("\n", at, end + 1)
        at = end + (text[end : end + 1] == "\n")


def append_whole(file: FileIO, content: bytes) -> None:
    """Append to an unbuffered file: all, or nothing. Raises ``OSError`` with the file's name if the disk is full."""
    end = file.seek(0, os.SEEK_END)
    rest = memoryview(content)
    try:
        while rest:  # a write to a disk that becomes full takes a part
            rest = rest[file.write(rest) :]
    except OSError as error:
        file.truncate(end)
        raise OSError(error.errno, error.strerror, Path(file.name).name) from error


@contextmanager
def atomic_write(path: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a temporary file that replaces ``path`` when the block ends without an exception.

    The file is fsynced before the replacement. After an exception or a kill, ``path`` is unchanged. A symbolic link is
    followed. Raises ``ValueError``, before the block begins, for a folder or a device, and ``OSError`` with the path
    for a full disk.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a folder or a device; name a file to write")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") if binary else os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and is_disk_full(error) and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


_STAGED: Final = ".staged."
_WHOLE: Final = ".whole"
"""Folder of files that belong together, all of them written, on their way into the folder that has it."""


@contextmanager
def replace_files(folder: Path) -> Iterator[Path]:
    """Yield a new folder whose files replace those of ``folder`` together when the block ends without an exception.

    After an exception, a full disk or a kill, ``folder`` has the earlier files. A kill between the replacements leaves
    the rest of the new files to ``finish_files``, which every reader of the set calls. The caller is the only writer.
    """
    finish_files(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_STAGED, dir=folder, ignore_cleanup_errors=True) as staged:
        new = Path(staged, "new")
        new.mkdir()
        yield new
        for path in new.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        new.rename(folder / _WHOLE)
    finish_files(folder)


def finish_files(folder: Path) -> None:
    """Finish a replacement of ``replace_files`` that was interrupted; two programs may do so at once."""
    if (folder / _WHOLE).is_dir():
        for path in (folder / _WHOLE).iterdir():
            with suppress(FileNotFoundError):  # another program moved it
                path.replace(folder / path.name)
        with suppress(FileNotFoundError):
            (folder / _WHOLE).rmdir()


def discard_staged(folder: Path) -> None:
    """Remove what a program left in a folder that was killed while it wrote; finish a replacement of whole files."""
    finish_files(folder)
    for left in folder.glob(f"{_STAGED}*"):
        shutil.rmtree(left, ignore_errors=True)
    for partial in folder.glob(".*.part"):
        partial.unlink(missing_ok=True)


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error, also one of FFmpeg, is that of a full disk."""
    return getattr(error, "errno", None) in _FULL


def digest_file(path: Path) -> str:
    """Return the SHA-256 digest of a regular file's content in hexadecimal digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def escape_formula(text: str) -> str:
    """Return the text, prefixed with ``'`` if it begins like a formula of a spreadsheet, or with ``'``."""
    return f"'{text}" if text.startswith(_ESCAPED_STARTS) else text


def unescape_formula(cell: str) -> str:
    """Return the text of a cell of ``escape_formula``."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_ESCAPED_STARTS) else cell


def write_csv(path: Path, rows: Iterable[Mapping[str, Cell]], *, columns: Sequence[str] | None = None) -> None:
    """Write rows to a CSV file atomically, one at a time; ``columns`` are by default those of the first row."""
    remaining = iter(rows)
    first = next(remaining, None)
    names = list(first or ()) if columns is None else list(columns)
    cells = ([to_cell(row.get(name)) for name in names] for row in (() if first is None else chain([first], remaining)))
    write_rows(path, chain([map(to_cell, names)], cells))


def write_rows(path: Path, rows: Iterable[Iterable[str]]) -> None:
    """Write rows of cells to a CSV file atomically. The cells must already be escaped; see ``to_cell``."""
    with atomic_write(path) as file:
        # The writer quotes a text for the characters of its own line ends alone, and readers end lines at \r too.
        lines = SimpleNamespace(write=lambda line: file.write(line.removesuffix("\r\n") + "\n"))
        csv.writer(lines, lineterminator="\r\n").writerows(rows)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically; nan becomes null."""
    with atomic_write(path) as file:
        file.write(to_json(replace_nan(content), indent=1) + "\n")


def to_cell(value: Cell) -> str:
    """Return a value as a CSV cell: text with formulas escaped, and an empty cell for None and nan."""
    if isinstance(value, str):
        return escape_formula(replace_surrogates(value))
    if isinstance(value, Sequence):
        return to_json(value)
    return "" if value is None or math.isnan(value) else repr(value)


def replace_nan(content: Any) -> Any:
    """Return a JSON value with None for each nan."""
    return _map_values(content, lambda value: None if isinstance(value, float) and math.isnan(value) else value)


def _map_values(content: Any, change: Callable[[Any], Any]) -> Any:
    """Return a JSON value with a function applied to every key, string, number and constant in it."""
    if isinstance(content, Mapping):
        return {change(key): _map_values(value, change) for key, value in content.items()}
    return [_map_values(value, change) for value in content] if isinstance(content, list | tuple) else change(content)
