"""METEOR's table of paraphrases, cut to the part that given references can use, and kept for the next time.

METEOR reads its whole table, 5.3 million pairs of phrases, in 6 s. It uses a pair only where one phrase is in the
reference and the other one in the hypothesis, word for word. So pairs of which no phrase is in any reference have no
effect, whatever the hypotheses are. **Source**: ``ParaphraseMatcher`` of METEOR 1.5.

METEOR may split a word at its punctuation, or drop that. Phrases with characters other than ``a-z`` and ``0-9`` are
therefore all kept, and a reference with such characters counts in each of its readings.

As a script, ``paraphrases.py TABLE OUT COMMAND...`` cuts the table, and becomes the command. It reads the references
from its input, a line with their size in bytes and one line for each; the command gets the rest of the input.
"""

import gzip
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_WORDS: Final = 7
"""Length of the longest phrase of METEOR's table."""
MAX_KEPT: Final = 32
"""Cut tables in the folder of the user, of about 1 MB each; the oldest are deleted."""
_VERSION: Final = 1
"""Changes with the pairs that ``cut_table`` keeps."""
_MAX_CUT_S: Final = 3600.0
_CHUNK: Final = 8 * 2**20
_RUN: Final = re.compile("[a-z0-9]+")
_NEWLINE: Final = 10
_IS_ODD: Final = ~np.isin(np.arange(256), list(b"abcdefghijklmnopqrstuvwxyz0123456789 \n"))


def find_cut_table(table: Path, references: Iterable[str]) -> Path | None:
    """Return the file for a cut table, which may exist, and make its folder; None if there is no room for it.

    The folder is ``meteor`` in ``STEPSCOPE_CACHE``, by default ``~/.cache/stepscope``.
    """
    digest = hashlib.sha256(f"{_VERSION} {table} {table.stat().st_size}\n".encode())
    for reference in sorted(set(references)):
        digest.update(reference.encode(errors="surrogatepass") + b"\n")
    with suppress(OSError, RuntimeError):  # RuntimeError: there is no home folder
        folder = Path(os.environ.get("STEPSCOPE_CACHE") or Path.home() / ".cache" / "stepscope") / "meteor"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder / f"{digest.hexdigest()[:32]}.gz"
    return None


def cut_table(table: Path, out: Path, references: Iterable[str]) -> None:
    """Write the pairs of a table that a corpus with these references can use, in the order of the table.

    Both are gzip files, of lines of a probability, a phrase and its paraphrase, in turns; ``out`` is written
    atomically.
    """
    phrases = {phrase.encode() for reference in references for phrase in list_phrases(reference)}
    with gzip.open(table) as source, NamedTemporaryFile(dir=out.parent, prefix=".cut.", delete=False) as file:
        try:
            with gzip.open(file, "wb", compresslevel=1) as target:
                for probabilities, first, second, odd in _read_pairs(source):
                    pairs = enumerate(zip(first, second, strict=True))
                    used = [number for number, (one, other) in pairs if one in phrases or other in phrases]
                    for number in sorted({*used, *odd.tolist()}):
                        target.write(b"%b\n%b\n%b\n" % (probabilities[number], first[number], second[number]))
            file.flush()
            Path(file.name).replace(out)
        except BaseException:
            Path(file.name).unlink()
            raise


def list_phrases(reference: str) -> set[str]:
    """Return the sequences of up to ``MAX_WORDS`` words that METEOR may find in a tokenised reference.

    Worked example: ``a re-used box`` has ``a re``, ``re used``, ``used box``, ``a reused box`` and others.
    """
    edges: list[list[tuple[str, int]]] = []  # from each place in the reference: the next word, and the place behind it
    for token in reference.lower().split():
        runs, here = _RUN.findall(token), len(edges)
        end = here + max(len(runs), 1)
        edges += [[(run, here + number)] for number, run in enumerate(runs, start=1)] or [[("", end)]]
        if len(runs) > 1:
            edges[here].append(("".join(runs), end))
    found = set[str]()
    for place in range(len(edges)):
        _walk(edges, place, (), found)
    return found - {""}


def _walk(edges: Sequence[Sequence[tuple[str, int]]], place: int, words: tuple[str, ...], found: set[str]) -> None:
    """Add the phrases that begin with ``words`` and continue from a place."""
    while place < len(edges) and edges[place][0][0] == "":  # punctuation alone
        place = edges[place][0][1]
    if place == len(edges) or len(words) == MAX_WORDS:
        return
    for word, following in edges[place]:
        found.add(" ".join((*words, word)))
        _walk(edges, following, (*words, word), found)


def _read_pairs(source: gzip.GzipFile) -> Iterator[tuple[list[bytes], list[bytes], list[bytes], NDArray[Any]]]:
    """Read a table in parts: probabilities, phrases, paraphrases, and the numbers of the pairs with odd characters."""
    rest = b""
    while chunk := source.read(_CHUNK):
        content = rest + chunk
        characters = np.frombuffer(content, np.uint8)
        ends = np.flatnonzero(characters == _NEWLINE)
        num_lines = len(ends) // 3 * 3
        size = int(ends[num_lines - 1]) + 1 if num_lines else 0
        lines, rest = content[:size].split(b"\n"), content[size:]
        odd = np.searchsorted(ends, np.flatnonzero(_IS_ODD[characters[:size]]))
        yield lines[0:num_lines:3], lines[1:num_lines:3], lines[2:num_lines:3], np.unique(odd[odd % 3 != 0] // 3)


def _delete_oldest(folder: Path) -> None:
    """Delete the tables that were used longest ago, and the parts of interrupted programs."""
    kept = sorted(folder.glob("*.gz"), key=lambda path: path.stat().st_mtime)
    parts = [path for path in folder.glob(".cut.*") if time.time() - path.stat().st_mtime > _MAX_CUT_S]
    for path in (*kept[:-MAX_KEPT], *parts):
        path.unlink(missing_ok=True)


def _read_exactly(size: int) -> bytes:
    """Read bytes of the input, and nothing behind them."""
    content = b""
    while len(content) < size and (part := os.read(0, size - len(content))):
        content += part
    return content


def _main(table: str, out: str, *command: str) -> None:
    size = b""
    while not size.endswith(b"\n"):
        size += os.read(0, 1)
    references = _read_exactly(int(size)).decode().split("\n")
    try:
        cut_table(Path(table), Path(out), references)
        _delete_oldest(Path(out).parent)
        command = (*command, "-a", out)
    except OSError:  # such as a full disk: METEOR reads its whole table
        pass
    os.execv(command[0], command)


if __name__ == "__main__":
    _main(*sys.argv[1:])
