"""File names of published videos."""

import re
import unicodedata
from typing import Final

MAX_SLUG_LENGTH: Final = 48


def file_stem(number: int, video_id: str) -> str:
    """Return a file name without an ending for any id: a unique number, then the plain letters and digits of the id.

    Example: number 3 and ``../Böat #1`` give ``0003-boat-1``. No two names are equal ignoring case.
    """
    plain = unicodedata.normalize("NFKD", video_id).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower())[:MAX_SLUG_LENGTH].strip("-")
    return f"{number:04d}-{slug}" if slug else f"{number:04d}"
