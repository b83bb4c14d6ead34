"""The published folder: it is written whole beside its place, and then takes it."""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pydantic import BaseModel

from stepscope.engine.io.files import write_json
from stepscope.engine.io.json_records import read_record

MAX_SLUG_LENGTH: Final = 48


def file_stem(number: int, video_id: str) -> str:
    """Return a file name without an ending for any id: a unique number, then the plain letters and digits of the id.

    Example: number 3 and ``../Böat #1`` give ``0003-boat-1``. No two names are equal ignoring case.
    """
    plain = unicodedata.normalize("NFKD", video_id).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower())[:MAX_SLUG_LENGTH].strip("-")
    return f"{number:04d}-{slug}" if slug else f"{number:04d}"


MARKER: Final = "publish.json"
"""File that marks a published folder and lists its entries."""


class _Marker(BaseModel):
    entries: list[str]


@contextmanager
def replace_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of ``out`` when the block ends without an exception.

    Otherwise ``out`` stays as it was. Raises ``ValueError``, before the block begins, if ``out`` exists and holds
    anything that was not published.
    """
    out = out.resolve()
    check_replaceable(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".publish.", dir=out.parent, ignore_cleanup_errors=True) as staging:
        new, old = Path(staging, "new"), Path(staging, "old")
        new.mkdir()
        yield new
        write_json(new / MARKER, {"entries": sorted([MARKER, *(path.name for path in new.iterdir())])})
        try:
            if out.exists():
                out.rename(old)
            new.rename(out)
        except BaseException:
            if old.exists() and not out.exists():
                old.rename(out)
            raise


def check_replaceable(out: Path) -> None:
    """Raise ``ValueError`` if a path exists and is not an empty folder or one that holds only published entries."""
    if not out.exists():
        return
    if not out.is_dir():
        raise ValueError(f"{out} is a file; choose another --out")
    found = {path.name for path in out.iterdir()}
    if not found:
        return
    try:
        published = set(read_record(_Marker, out / MARKER).entries)
    except (FileNotFoundError, ValueError):
        raise ValueError(f"{out} exists and was not written by stepscope publish; choose another --out") from None
    if foreign := sorted(found - published):
        raise ValueError(f"{out} holds {foreign[0]!r}, which stepscope publish did not write; move it away")
