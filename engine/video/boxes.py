"""The boxes of an mp4 file. **Source**: ISO/IEC 14496-12, 4.2, 8.5.2, 8.7.3 and 8.8.8."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

from stepscope.engine.errors import VideoError
from stepscope.engine.video.cuts import read_blocks

_MAX_BOXES: Final = 2**21
_MAX_CONTENT_BYTES: Final = 2**27
_NUM_PART_SAMPLES: Final = 512
"""Least samples of sound for which FFmpeg makes an entry of a chunk."""
_TABLES: Final = re.compile(rb"stsz|stz2|stsc|stco|co64|elst|trun|cmvd")
"""Names of the tables on which FFmpeg's index depends, and of a compressed header."""
_SAMPLE_TABLES: Final = (b"stsz", b"stz2", b"stsc", b"stco", b"co64")
_NO_TABLES: Final = frozenset({b"mdat", b"skip", b"wide", b"uuid"})
_ONE_EACH: Final = (1).to_bytes(4, "big") * 2
"""One run of samples of duration 1."""


def read_boxes(path: Path, kind: bytes, *, may_be_cut: bool = False) -> Iterator[bytes]:
    """Yield the contents of the outermost boxes of a kind, such as ``moov``, up to the first damaged box.

    With ``may_be_cut``, the last box is one that reaches beyond the end of the file. A box of 128 MiB or more, with
    millions of pictures, is left out.
    """
    num_bytes = path.stat().st_size
    with path.open("rb") as file:
        for name, start, end in _find_outermost(file, num_bytes):
            size = min(end, num_bytes) - start
            if name == kind and size < _MAX_CONTENT_BYTES and (end <= num_bytes or may_be_cut):
                file.seek(start)
                yield file.read(size)


def count_entries(path: Path) -> int:
    """Return the largest number of entries of FFmpeg's index of a file, as its header and its fragments state it.

    FFmpeg allocates the index when it opens the file, without a check of these numbers: a file of 2 kB can take 3 GB.
    Raises ``VideoError`` if it would find tables of pictures where no program writes them: there they are not counted.
    """
    stat = path.stat()
    return _count_entries(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _count_entries(path: Path, num_bytes: int, _changed_ns: int) -> int:
    num_entries = num_tables = 0
    for header in read_boxes(path, b"moov", may_be_cut=True):
        for track in _find_nested(memoryview(header), b"trak"):
            edits = list(_find_nested(track, b"edts", b"elst"))
            tables = {kind: list(_find_nested(track, b"mdia", b"minf", b"stbl", kind)) for kind in _SAMPLE_TABLES}
            num_tables += len(edits) + sum(map(len, tables.values()))
            num_shown = max(1, _sum_counts(edits) - 1)  # the first edit is often an empty one, a delay
            num_entries += num_shown * _count_indexed(track, tables)
    for fragment in read_boxes(path, b"moof", may_be_cut=True):
        runs = list(_find_nested(memoryview(fragment), b"traf", b"trun"))
        num_tables += len(runs)
        num_entries += _sum_counts(runs)
    if num_tables < _count_names(path, num_bytes):
        raise VideoError(f"{path}: has tables of pictures where no program writes them, or compressed; convert it")
    return num_entries


def _count_indexed(track: memoryview, tables: Mapping[bytes, Sequence[memoryview]]) -> int:
    """Return the entries of one track: its samples, or of sound with samples of 1 tick, parts of its chunks."""
    handlers = [bytes(handler[8:12]) for handler in _find_nested(track, b"mdia", b"hdlr")]
    times = list(_find_nested(track, b"mdia", b"minf", b"stbl", b"stts"))
    is_even = bool(times) and all(bytes(time[4:8]) + bytes(time[12:16]) == _ONE_EACH for time in times)
    if not (is_even and handlers and all(handler == b"soun" for handler in handlers)):
        return _sum_counts([sizes[4:] for kind in (b"stsz", b"stz2") for sizes in tables[kind]])
    num_chunks = _sum_counts([*tables[b"stco"], *tables[b"co64"]])
    starts = ((run, at) for run in tables[b"stsc"] for at in range(12, len(run), 12))
    longest = max((int.from_bytes(run[at : at + 4], "big") for run, at in starts), default=0)
    return num_chunks * (1 + longest // _NUM_PART_SAMPLES)


def _sum_counts(tables: Iterable[memoryview]) -> int:
    """Return the sum of the numbers of entries that tables state after 4 bytes of version and flags."""
    return sum(int.from_bytes(table[4:8], "big") for table in tables)


def _count_names(path: Path, num_bytes: int) -> int:
    """Count what looks like a table, at any depth of the boxes in which FFmpeg looks for one."""
    found = 0
    with path.open("rb") as file:
        for name, start, end in _find_outermost(file, num_bytes):
            if name in _NO_TABLES:
                continue
            file.seek(start - 8)
            for block in read_blocks(file, end - start + 8, num_kept=7):
                starts = (match.start() for match in _TABLES.finditer(block, 4))
                found += sum(not 2 <= int.from_bytes(block[at - 4 : at], "big") < 16 for at in starts)
    return found


def _find_outermost(file: BinaryIO, num_bytes: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name of every outermost box, and start and end of its content, up to the first damaged box."""
    end = 0
    for _ in range(_MAX_BOXES):
        if (start := end) + 8 > num_bytes:
            return
        file.seek(start)
        size, name = int.from_bytes(file.read(4), "big"), file.read(4)
        if size == 1:
            size = int.from_bytes(file.read(8), "big")
        end = start + size if size else num_bytes  # 0: up to the end of the file
        if end < file.tell():
            return
        yield name, file.tell(), end
    raise VideoError(f"{file.name}: has more than {_MAX_BOXES} boxes; convert it")


def _find_nested(content: memoryview, kind: bytes, *further: bytes) -> Iterator[memoryview]:
    """Yield the contents of the boxes of a kind inside a box, or of those of ``further`` kinds inside of them."""
    start = 0
    while start + 8 <= len(content):
        size = int.from_bytes(content[start : start + 4], "big") or len(content) - start
        if size < 8:
            return
        if content[start + 4 : start + 8] == kind:
            inner = content[start + 8 : start + size]
            if further:
                yield from _find_nested(inner, *further)
            else:
                yield inner
        start += size


def find_settings(header: bytes) -> list[bytes]:
    """Return the sample descriptions of a ``moov`` box, one per track, with the settings of its codec."""
    found, at = list[bytes](), header.find(b"stsd")
    while at >= 0:
        end = max(at + 4, at - 4 + int.from_bytes(header[max(0, at - 4) : at], "big"))
        found.append(header[at:end])
        at = header.find(b"stsd", end)
    return found
