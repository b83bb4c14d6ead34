"""Whether a file, by its own structure, is cut off or followed by another: FFmpeg reads it as a shorter whole one.

Recorders that never finish a file leave its sizes 0 or unknown: such a file is whole. MPEG-TS, MPEG-PS, NUT, DV and raw
streams do not state their length, so that a cut is not seen.
"""

import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_NUM_HEADER_BYTES: Final = 2**16
_FLV_SIZE: Final = re.compile(rb"\0\x08filesize\0(.{8})", re.DOTALL)
"""Size of the file, a float. **Source**: Adobe Flash Video File Format Specification 10.1, annex E.5."""
_FLV_START = re.compile(rb"FLV\x01[\x01\x04\x05]\0\0\0\x09\0\0\0\0")
"""Begin of a file. **Source**: Adobe Flash Video File Format Specification 10.1, annex E."""
_NUM_BLOCK_BYTES = 2**20
_ASF_PROPERTIES: Final = re.compile(
    rb"\xa1\xdc\xab\x8c\x47\xa9\xcf\x11\x8e\xe4\x00\xc0\x0c\x20\x53\x65.{24}(.{8}).{40}(.{4})", re.DOTALL
)
"""Size of the file, and flags: a broadcast has no size. **Source**: ASF Specification 1.20.03, section 3.2."""
_MXF_HEADER: Final = re.compile(
    rb"\x06\x0e\x2b\x34\x02\x05\x01.\x0d\x01\x02\x01\x01\x02.\0(?:\x83.{3}|\x84.{4}|\x88.{8}|[\0-\x7f]).{24}(.{8})",
    re.DOTALL,
)
"""Offset of the footer, 0 in an open file. **Source**: SMPTE ST 377-1, section 7.1."""
_OGG_END: Final = 4
"""Flag of the last page. **Source**: RFC 3533, section 6."""
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
"""Ids of the two parts of a Matroska file. **Source**: RFC 8794, section 11.2.1; RFC 9559, section 5.1."""
_MAX_BLOCKS: Final = 2**22
"""Blocks after which a file is taken for whole, as in a GIF of 1 GB: a hostile one has a block in 2 bytes."""
_MAX_PAGE_BYTES: Final = 27 + 255 + 255 * 255


def is_cut_off(path: Path, container: str) -> bool:
    """Return whether a file of a container, by FFmpeg's name, ends before its structure does."""
    num_bytes = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        header = content[:_NUM_HEADER_BYTES]
        match container:
            case "avi":
                return _is_avi_cut(content)
            case "flv":
                found = _FLV_SIZE.search(header)
                return found is not None and struct.unpack(">d", found[1])[0] > num_bytes
            case "asf":
                found = _ASF_PROPERTIES.search(header)
                is_broadcast = found is not None and bool(found[2][0] & 1)
                return found is not None and not is_broadcast and int.from_bytes(found[1], "little") > num_bytes
            case "mxf":
                found = _MXF_HEADER.search(header)
                return found is not None and int.from_bytes(found[1], "big") >= num_bytes
            case "gif":
                return _is_gif_cut(content)
            case "ogg":
                return _is_ogg_cut(content)
    return False


def has_further_flv(path: Path) -> bool:
    """Return whether another FLV file is appended."""
    with path.open("rb") as file:
        file.seek(1)  # behind the start of the first
        return any(map(_FLV_START.search, read_blocks(file, path.stat().st_size, num_kept=12)))


def read_blocks(file: BinaryIO, num_bytes: int, *, num_kept: int) -> Iterator[bytes]:
    """Read bytes in blocks, each behind the last ``num_kept`` bytes of the one before.

    A search of the whole file at once would stop all other threads.
    """
    kept = b""
    while block := file.read(min(num_bytes, _NUM_BLOCK_BYTES)):
        num_bytes -= len(block)
        block = kept + block
        yield block
        kept = block[-num_kept:]


def find_segment_end(path: Path) -> int | None:
    """Return where the only segment of a Matroska file should end, in bytes; None if unknown, or if more follows.

    **Source**: RFC 8794, section 4 and 5.
    """
    with path.open("rb") as file:
        for name in (_EBML, _SEGMENT):
            if file.read(4) != name:
                return None
            first = int.from_bytes(file.read(1), "big")
            if first == 0:  # the file is cut off, or not Matroska
                return None
            num_bytes = 9 - first.bit_length()  # the leading zero bits count the further bytes
            size = int.from_bytes(bytes([first & (1 << (8 - num_bytes)) - 1]) + file.read(num_bytes - 1), "big")
            if size == (1 << 7 * num_bytes) - 1:  # unknown: written to a stream
                return None
            file.seek(size, os.SEEK_CUR)
        return file.tell() if file.tell() >= path.stat().st_size else None


def is_complete(path: Path, end: int) -> bool:
    """Return whether a file reaches byte ``end``, and does not end with zeros as an unfinished download does."""
    with path.open("rb") as file:
        file.seek(end - 16)
        last = file.read()
    return len(last) == 16 and any(last)


def _is_avi_cut(content: mmap.mmap) -> bool:
    """Return whether a RIFF chunk, of which a long file has several, reaches beyond the end of the file."""
    start = 0
    for _ in range(_MAX_BLOCKS):
        if content[start : start + 4] != b"RIFF":
            break
        size = int.from_bytes(content[start + 4 : start + 8], "little")
        if size in (0, 2**32 - 1):  # never finished
            return False
        start += 8 + size + size % 2
    return start > len(content) + 1  # the last byte may be left out that makes a size even


def _is_gif_cut(content: mmap.mmap) -> bool:
    """Return whether the file ends inside a block. **Source**: GIF89a Specification, sections 18 to 27."""

    def end_of_table(flags: int, start: int) -> int:
        return start + (3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0)

    num_bytes = len(content)
    at = end_of_table(content[10], 13) if num_bytes > 10 else 13
    is_inside = False  # a block of a picture or an extension, which consists of further blocks
    for _ in range(_MAX_BLOCKS):
        if at >= num_bytes:
            return is_inside or at > num_bytes
        if is_inside:
            is_inside = content[at] > 0
            at += 1 + content[at]
        elif content[at] == 0x21:
            at, is_inside = at + 2, True
        elif content[at] == 0x2C:
            at, is_inside = end_of_table(content[at + 9] if at + 9 < num_bytes else 0, at + 10) + 1, True
        else:
            break
    return False


def _is_ogg_cut(content: mmap.mmap) -> bool:
    """Return whether the last page is not marked as the end, and reaches beyond the end of the file."""
    tail = content[max(0, len(content) - _MAX_PAGE_BYTES) :]
    start = tail.rfind(b"OggS\0")
    page = tail[start:]
    if start < 0 or len(page) < 27 or len(page) < 27 + page[26]:
        return start >= 0
    return not page[5] & _OGG_END and len(page) < 27 + page[26] + sum(page[27 : 27 + page[26]])
