"""The boxes of an mp4 file. **Source**: ISO/IEC 14496-12, 4.2 and 8.5.2."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MAX_BOXES: Final = 2**20
_MAX_CONTENT_BYTES: Final = 2**26


def read_boxes(path: Path, kind: bytes) -> Iterator[bytes]:
    """Yield the contents of the outermost boxes of a kind, such as ``moov``, up to the first damaged box."""
    num_bytes, start = path.stat().st_size, 0
    with path.open("rb") as file:
        for _ in range(_MAX_BOXES):
            file.seek(start)
            size, name = int.from_bytes(file.read(4), "big"), file.read(4)
            if size == 1:
                size = int.from_bytes(file.read(8), "big")
            size = size or num_bytes - start  # 0: up to the end of the file
            if size < 8 or start + size > num_bytes:
                return
            if name == kind and size < _MAX_CONTENT_BYTES:
                yield file.read(start + size - file.tell())
            start += size


def find_settings(header: bytes) -> list[bytes]:
    """Return the sample descriptions of a ``moov`` box, one per track, with the settings of its codec."""
    found, at = list[bytes](), header.find(b"stsd")
    while at >= 0:
        end = max(at + 4, at - 4 + int.from_bytes(header[max(0, at - 4) : at], "big"))
        found.append(header[at:end])
        at = header.find(b"stsd", end)
    return found
