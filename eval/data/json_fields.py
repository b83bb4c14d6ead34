"""Checked access to the fields of an external JSON object.

A field that is missing or has the wrong type raises ``ValueError``. The message names its path, such as
``conversation[5].time``, the requirement and the value found. Nothing is converted: ``"2"`` is not a number.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope.engine.dialogue import MAX_SECONDS
from stepscope.engine.io.files import load_json, read_text, replace_surrogates
from stepscope.engine.io.json_records import reading, short_repr

MAX_FRAMES = 2**31
MAX_DURATION_S = 86_400.0
"""Longest sample, in seconds: a day."""
MAX_TEXT_CHARS = 50_000
"""Longest text of a turn or a message, in characters."""
MAX_SAMPLE_FRAMES = 2_592_000
"""Frames of a sample at most: a day at 30 frames/s. Each takes memory, even where the video is shorter."""


def check_number(name: str, value: object, *, minimum: float = -MAX_SECONDS, maximum: float = MAX_SECONDS) -> float:
    """Return a finite number in ``[minimum, maximum]``, seconds by default. Raises ``ValueError`` for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
        raise _error(name, value, f"must be a number from {minimum:g} to {maximum:g}")
    return float(value)


def check_index(name: str, value: object) -> int:
    """Return a whole number that is not negative and below ``MAX_FRAMES``. Raises ``ValueError`` for other values."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_FRAMES:
        raise _error(name, value, f"must be a whole number from 0 to {MAX_FRAMES - 1}")
    return value


def check_text(name: str, value: object, *, max_chars: int = MAX_TEXT_CHARS) -> None:
    """Raise ``ValueError`` unless a value is text of at most ``max_chars`` characters."""
    if not isinstance(value, str) or len(value) > max_chars:
        raise _error(name, value, f"must be text of at most {max_chars} characters")


def check_span(name: str, value: object, *, may_be_instant: bool = False) -> tuple[float, float]:
    """Return start and end in seconds from a list of both. Raises ``ValueError`` for other values."""
    if not isinstance(value, list) or len(value) != 2:
        raise _error(name, value, "must be a list of start and end in seconds")
    start_s, end_s = (check_number(name, number, minimum=0) for number in value)
    if end_s < start_s or (end_s == start_s and not may_be_instant):
        raise _error(name, value, "must end after its start")
    return start_s, end_s


def parse_clock(text: str) -> float:
    """Return the seconds of a text such as ``02:03.500`` or ``01:02:03``, whose form is checked already."""
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def read_provenance_beside(path: Path) -> dict[str, Any]:
    """Return the provenance that ``write_samples`` put beside a file; empty without one. Raises ``ValueError``."""
    file = path.with_name(f"{path.name}.provenance.json")
    if not file.is_file():
        return {}
    with reading(file):
        content = load_json(read_text(file))
    return content if isinstance(content, dict) else {}


def _error(name: str, value: object, rule: str) -> ValueError:
    found = f"{name} is missing; it {rule}" if value is None else f"{name} {rule}; got {short_repr(value)}"
    return ValueError(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """A JSON object and its path in the record. Every ``read_...`` method raises ``ValueError`` naming the field."""

    record: Mapping[str, object]
    path_prefix: str = ""
    """Prefix of a field's name in messages, such as ``conversation[5].``."""

    def has(self, name: str) -> bool:
        """Whether the field is present and not null."""
        return self.record.get(name) is not None

    def has_list(self, name: str) -> bool:
        """Whether the field is a list."""
        return isinstance(self.record.get(name), list)

    def error(self, name: str, rule: str) -> ValueError:
        """Return the error of a field that breaks a rule, such as ``must be text``."""
        return _error(f"{self.path_prefix}{name}", self.record.get(name), rule)

    def read_text(self, name: str, *, may_be_blank: bool = False) -> str:
        """Return text that is not blank: a blank turn would count as silence. A lone surrogate becomes ``?``."""
        value = self.record.get(name)
        if not isinstance(value, str) or not (may_be_blank or value.strip()):
            raise self.error(name, "must be text" if may_be_blank else "must be text, not blank")
        return replace_surrogates(value)

    def read_choice(self, name: str, choices: Collection[str]) -> str:
        """Return one of the texts in ``choices``."""
        value = self.record.get(name)
        if not isinstance(value, str) or value not in choices:
            raise self.error(name, f"must be one of {', '.join(choices)[:200]}")
        return value

    def read_number(self, name: str, *, minimum: float = -MAX_SECONDS, maximum: float = MAX_SECONDS) -> float:
        """Return a finite number in ``[minimum, maximum]``."""
        return check_number(f"{self.path_prefix}{name}", self.record.get(name), minimum=minimum, maximum=maximum)

    def read_fps(self) -> float:
        """Return the frames per second."""
        return self.read_number("fps", minimum=0.001, maximum=1000)

    def read_index(self, name: str) -> int:
        """Return a whole number that is not negative."""
        value = self.record.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # pandas writes 10.0
        return check_index(f"{self.path_prefix}{name}", value)

    def check_length(self, name: str, num_frames: int, fps: float) -> None:
        """Raise ``ValueError`` that names a field if a sample is longer than a day, or has too many frames."""
        if num_frames > min(MAX_DURATION_S * fps, MAX_SAMPLE_FRAMES):
            raise self.error(
                name, f"must give a video of at most a day and {MAX_SAMPLE_FRAMES} frames, not {num_frames / fps:g} s"
            )

    def read_object(self, name: str, *, may_be_missing: bool = False) -> "Fields":
        """Return an inner object; an empty one for a field that may be missing."""
        value = {} if may_be_missing and not self.has(name) else self.record.get(name)
        if not isinstance(value, dict):
            raise self.error(name, "must be an object")
        return Fields(record=value, path_prefix=f"{self.path_prefix}{name}.")

    def read_objects(self, name: str) -> "tuple[Fields, ...]":
        """Return a list of objects, which may be empty."""
        value = self.record.get(name)
        if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
            raise self.error(name, "must be a list of objects")
        return tuple(Fields(record=part, path_prefix=f"{self.path_prefix}{name}[{i}].") for i, part in enumerate(value))
