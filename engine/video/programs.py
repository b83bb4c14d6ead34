"""The programs of a transport stream. **Source**: ISO/IEC 13818-1, 2.4.4; ETSI EN 300 468, 5.2.3."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from stepscope.engine.errors import VideoError
from stepscope.engine.video.cuts import read_blocks

_NUM_PACKET_BYTES: Final = 188
_PACKET: Final = re.compile(rb"G(?=([\0\x20\x40\x60\x80\xa0\xc0\xe0])([\0\x11])(.{185}))", re.DOTALL)
"""A packet of program associations (0) or service descriptions (0x11), at any place, as FFmpeg looks for it."""
_ENTRY_BYTES: Final = {b"\0": (0x00, 12, 4), b"\x11": (0x42, 15, 10)}
"""Of both kinds: the table, its bytes besides the entries, and the least bytes of an entry."""
_MAX_STEPS: Final = 2**30
"""Steps of FFmpeg's search for programs: about 2 s."""


def check_programs(path: Path) -> None:
    """Raise ``VideoError`` at a stream whose programs change so often that FFmpeg would search them for hours.

    For each new table FFmpeg compares all programs with each other, and keeps those of all tables before.
    """
    stat = path.stat()
    if _count_steps(path, stat.st_size, stat.st_mtime_ns) > _MAX_STEPS:
        raise VideoError(f"{path}: its tables of programs change too often; convert one program of it to mp4")


@lru_cache(maxsize=64)
def _count_steps(path: Path, num_bytes: int, _changed_ns: int) -> int:
    num_programs = num_steps = 0
    rests, lasts, seen = dict.fromkeys(_ENTRY_BYTES, b""), dict[bytes, bytes](), set[bytes]()
    with path.open("rb") as file:
        for block in read_blocks(file, num_bytes, num_kept=_NUM_PACKET_BYTES - 1):
            for flags, kind, content in map(re.Match.groups, _PACKET.finditer(block)):
                sections, rests[kind] = _split(rests[kind], is_start=bool(flags[0] & 0x40), content=content)
                table, num_other, num_entry = _ENTRY_BYTES[kind]
                for section in sections:
                    number = max(0, len(section) - num_other) // num_entry
                    if section[0] != table or not number or section == lasts.get(kind):
                        continue
                    lasts[kind] = section
                    if section not in seen:
                        seen.add(section)
                        num_programs += number
                    num_steps += num_programs * (number if table else num_programs)
                if num_steps > _MAX_STEPS:
                    return num_steps
    return num_steps


def _split(rest: bytes, *, is_start: bool, content: bytes) -> tuple[list[bytes], bytes]:
    """Return the sections that a packet completes, and the begin of the next; ``content`` is from byte 3 on."""
    control = content[0] >> 4 & 3
    payload = content[1 if control == 1 else 2 + content[1] :] if control & 1 else b""
    if not payload or not (is_start or rest):
        return [], rest
    parts = [rest + payload[1 : 1 + payload[0]], payload[1 + payload[0] :]] if is_start else [rest + payload]
    sections = []
    for part in parts:
        rest = part
        while len(rest) >= 3 and rest[0] != 0xFF:
            size = 3 + (int.from_bytes(rest[1:3], "big") & 0xFFF)
            if len(rest) < size:
                break
            sections.append(rest[:size])
            rest = rest[size:]
    return sections, rest if len(rest) < 3 or rest[0] != 0xFF else b""
