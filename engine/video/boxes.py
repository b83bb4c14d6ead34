"""The boxes of an mp4 file. **Source**: ISO/IEC 14496-12, 4.2, 8.5.2, 8.7.3 and 8.8.8."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MAX_BOXES: Final = 2**20
_MAX_CONTENT_BYTES: Final = 2**26
_ONE_EACH: Final = (1).to_bytes(4, "big") * 2
"""One run of samples of duration 1."""


def read_boxes(path: Path, kind: bytes, *, may_be_cut: bool = False) -> Iterator[bytes]:
    """Yield the contents of the outermost boxes of a kind, such as ``moov``, up to the first damaged box.

    With ``may_be_cut``, the last box is one that reaches beyond the end of the file. A box of 64 MiB or more, which has
    millions of pictures, is left out.
    """
    num_bytes, start = path.stat().st_size, 0
    with path.open("rb") as file:
        for _ in range(_MAX_BOXES):
            file.seek(start)
            size, name = int.from_bytes(file.read(4), "big"), file.read(4)
            if size == 1:
                size = int.from_bytes(file.read(8), "big")
            size = size or num_bytes - start  # 0: up to the end of the file
            if size < 8 or (start + size > num_bytes and not may_be_cut):
                return
            size = min(size, num_bytes - start)
            if name == kind and size < _MAX_CONTENT_BYTES:
                yield file.read(start + size - file.tell())
            start += size


def count_entries(path: Path) -> int:
    """Return the number of entries of FFmpeg's index of a file, as its header and its fragments state it.

    FFmpeg allocates the index when it opens the file, without a check of these numbers: a file of 2 kB can take 3 GB.
    """
    total = 0
    for header in read_boxes(path, b"moov", may_be_cut=True):
        for track in _find_nested(header, b"trak"):
            media = list(_find_nested(track, b"mdia"))
            tables = [table for one in media for table in _find_nested(one, b"minf", b"stbl")]
            times = [time for table in tables for time in _find_nested(table, b"stts")]
            is_sound = any(handler[8:12] == b"soun" for one in media for handler in _find_nested(one, b"hdlr"))
            if is_sound and times and all(time[4:8] + time[12:16] == _ONE_EACH for time in times):
                continue  # an entry is a chunk of samples
            sizes = (size for table in tables for kind in (b"stsz", b"stz2") for size in _find_nested(table, kind))
            total += sum(int.from_bytes(size[8:12], "big") for size in sizes)
    for fragment in read_boxes(path, b"moof", may_be_cut=True):
        total += sum(int.from_bytes(run[4:8], "big") for run in _find_nested(fragment, b"traf", b"trun"))
    return total


def _find_nested(content: bytes, kind: bytes, *further: bytes) -> Iterator[bytes]:
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
