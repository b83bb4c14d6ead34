"""Mappings: descriptions of the files of a data set, from ``mappings.yaml`` or from a user's file of the same form."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from stepscope.engine.config_files import read_yaml
from stepscope.engine.dialogue import MAX_SECONDS, parse_time
from stepscope.engine.io.files import to_json
from stepscope.engine.io.json_records import parse_record, short_repr
from stepscope.eval.data.json_fields import check_number

Form = Literal["table", "lines", "json", "framewise"]
Flag = Mapping[str, tuple[str, ...]]
"""Beginnings of the values that set a flag, by field; without beginnings any value but false, none and 0 does."""
_UNIT: Final = re.compile(r"s|ms|clock|ticks|(frames|timecode)@([0-9]+(?:\.[0-9]+)?)")
_SCALES: Final = {"s": 1.0, "ms": 1e-3, "ticks": 1e-7}
_TIMECODE: Final = re.compile(r"(\d+:\d\d:\d\d)[:;](\d+)", re.ASCII)
_FRAME: Final = re.compile(r"-?(\d+)(?:\.0|\.jpe?g|\.png)?", re.ASCII)
_NUMBER: Final = re.compile(r"-?\d+(?:[.,]\d*)?(?:e-?\d+)?", re.ASCII | re.IGNORECASE)
_NEVER: Final = re.compile(r"-1(?:\.0*)?")
_NO: Final = ("", "0", "0.0", "false", "none", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetMapping:
    """Description of the files of one data set; the head of ``mappings.yaml`` describes the fields."""

    name: str
    title: str = ""
    licence: str = ""
    form: Form = "table"
    keys: tuple[str, ...] = ()
    line: str = ""
    skip: str = ""
    file: str = ""
    videos: str = ""
    segments: str = ""
    children: str = ""
    level: str = ""
    levels: tuple[str, ...] = ()
    video: str = "@file"
    video_file: str = "{video}"
    start: str = ""
    end: str = ""
    label: str = "label"
    step: str = ""
    unit: str = "s"
    base: int = 0
    zero: str = ""
    end_included: bool = False
    duration: str = ""
    subset: str = ""
    goal: str = ""
    goals: Mapping[str, str] = field(default_factory=dict)
    recipe: str = ""
    taxonomy: str = ""
    background: tuple[str, ...] = ()
    irrelevant: Flag = field(default_factory=dict)
    events: Flag = field(default_factory=dict)
    continued: Flag = field(default_factory=dict)
    wrong: Flag = field(default_factory=dict)
    cause: str = ""
    corrected_by: str = ""
    messages: Flag = field(default_factory=dict)
    text: str = ""
    assistant: Flag = field(default_factory=dict)

    def __post_init__(self) -> None:
        match = _UNIT.fullmatch(self.unit)
        if match is None or (match[2] and not 0 < float(match[2]) <= 1e6):
            known = "s, ms, clock, ticks, frames@RATE or timecode@RATE"
            raise ValueError(f"unit must be {known}; got {short_repr(self.unit)}")
        for name in ("line", "skip", "file"):
            try:
                re.compile(getattr(self, name))
            except re.error as error:
                raise ValueError(f"{name} must be a regular expression; {error}") from error
        if not self.start and not self.end:
            raise ValueError("start or end must name the field of a time")

    @property
    def description(self) -> str:
        """The title and the licence."""
        return " ".join(filter(None, (self.title or self.name, self.licence and f"({self.licence})")))


@cache
def read_bundled() -> Mapping[str, DatasetMapping]:
    """Return the mappings of ``mappings.yaml`` by name."""
    return read_mappings(Path(__file__).with_name("mappings.yaml"))


def read_mappings(path: Path) -> dict[str, DatasetMapping]:
    """Return the mappings of a file by name. Raises ``ValueError`` naming the file, the mapping and the field."""
    content = read_yaml(path)
    if not isinstance(content, dict) or not all(isinstance(fields, dict) for fields in content.values()):
        raise ValueError(f"{path} must map names of data sets to their fields, as in docs/datasets.md")
    mappings = {}
    for name, fields in content.items():
        try:
            mappings[str(name)] = parse_record(DatasetMapping, to_json({**fields, "name": str(name)}))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, {name}: {error}") from error
    return mappings


def override(mapping: DatasetMapping, columns: Sequence[str], unit: str) -> DatasetMapping:
    """Return a mapping with columns of the form ``start=t0``, and with a unit if one is given."""
    fields: dict[str, Any] = {"unit": unit} if unit else {}
    known = ("video", "start", "end", "label", "step", "goal", "subset", "duration", "cause")
    for column in columns:
        name, equals, value = column.partition("=")
        if name not in known or not equals:
            raise ValueError(f"--columns takes FIELD=COLUMN with a field of {', '.join(known)}; got {column}")
        fields[name] = value
        fields |= {"wrong": {value: ()}} if name == "cause" and not mapping.wrong else {}
    return replace(mapping, **fields)


def find_value(record: Mapping[str, Any], path: str) -> Any:
    """Return the value of a field; None if the record has none, or an empty one."""
    for name in path.split("|"):
        if "{" in name:
            value: Any = re.sub(r"\{([^{}]+)\}", lambda match: find_text(record, match[1]), name).strip()
        else:
            value = _follow(record, name)
        if value is not None and value != "" and value != []:
            return value
    return None


def find_text(record: Mapping[str, Any], path: str) -> str:
    """Return the value of a field as one line of text; empty if there is none."""
    value = find_value(record, path) if path else None
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, list):
        return ", ".join(str(item) for item in value if not isinstance(item, dict | list))
    return " ".join((str(value).removesuffix(".0") if isinstance(value, float) else str(value)).split())


def has_flag(record: Mapping[str, Any], flag: Flag) -> bool:
    """Whether one of the fields of a flag has a value that sets it."""
    for path, beginnings in flag.items():
        value = find_value(record, path)
        text = find_text(record, path).lower()
        if beginnings and text.startswith(tuple(beginning.lower() for beginning in beginnings)):
            return True
        if not beginnings and (text not in _NO or isinstance(value, list | dict)):
            return True
    return False


def to_seconds(value: object, mapping: DatasetMapping, *, is_end: bool = False) -> float:
    """Return a time of a file in seconds; -1 for that of a step that was never done. Raises ``ValueError``."""
    text = str(value).strip()
    if _NEVER.fullmatch(text):
        return -1.0
    kind, _, rate = mapping.unit.partition("@")
    if kind == "frames" or kind == "timecode":
        match = (_FRAME if kind == "frames" else _TIMECODE).fullmatch(text)
        if match is None or text.startswith("-"):
            example = "120 or 00120.jpg" if kind == "frames" else "00:01:02:15"
            raise ValueError(f"a time in {mapping.unit} is written {example}; got {short_repr(value)}")
        clock_s = parse_time(match[1]) if kind == "timecode" else 0.0
        frame = min(int(match[match.re.groups][:18]) - mapping.base + (is_end and mapping.end_included), MAX_SECONDS)
        return check_number("a time", clock_s + frame / float(rate), minimum=0)
    if kind == "clock" and ":" in text:
        return parse_time(text)
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"a time is a number{', or like 1:30' if kind == 'clock' else ''}; got {short_repr(value)}")
    number = float(text.replace(",", ".")) - (mapping.base if kind == "ticks" else 0)
    return check_number("a time", number * _SCALES.get(kind, 1.0), minimum=0)


def _follow(value: Any, path: str) -> Any:
    if path == "" or (isinstance(value, dict) and path in value):
        return value if path == "" else value[path]
    first, _, rest = path.partition(".")
    if isinstance(value, dict):
        return _follow(value[first], rest) if first in value else None
    if isinstance(value, list) and first == "*":
        return [found for item in value if (found := _follow(item, rest)) is not None]
    if isinstance(value, list) and first.isdigit() and int(first) < len(value):
        return _follow(value[int(first)], rest)
    return None
