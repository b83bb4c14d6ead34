"""Reads our own records from JSON, with names and types checked; an error is one sentence that names the field.

A record is a dataclass, for which unknown fields are an error, or a pydantic model, whose configuration decides.
The annotations, such as the types below, restrict the values. Nothing is converted: ``"2"`` is not a number.
``eval.data.json_fields`` reads external JSON and its errors also name the remedy.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, WrapValidator

from stepscope.engine.io.files import load_json, read_text

T = TypeVar("T")

_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlevel = 3
_ESCAPED_SURROGATES: Final = re.compile(r"(\\\\)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def short_repr(value: object) -> str:
    """Return any JSON value as text for an error message, truncated to a readable length and depth."""
    return _SHORT.repr(value)


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def _null_is_nan(value: object, check: Callable[[object], float]) -> float:
    return math.nan if value is None else check(value)


def _nullable(bounds: Any) -> WrapValidator:
    """Return a validator that reads null as nan, with a JSON Schema of a bounded number or null."""
    return WrapValidator(_null_is_nan, json_schema_input_type=Annotated[float, bounds] | None)


Count = Annotated[int, Field(ge=0, lt=2**53)]
"""A whole number from 0 that a double represents exactly."""
Finite = Annotated[float, Field(ge=-1e15, le=1e15)]
"""A finite number whose sums are finite too."""
Amount = Annotated[float, Field(ge=0, le=1e15)]
"""A finite number that is not negative."""
FiniteOrNan = Annotated[float, Field(ge=-1e15, le=1e15), _nullable(Field(ge=-1e15, le=1e15))]
"""A finite number; null in JSON is nan."""
AmountOrNan = Annotated[float, Field(ge=0, le=1e15), _nullable(Field(ge=0, le=1e15))]
"""A finite number that is not negative; null in JSON is nan."""
ProbOrNan = Annotated[float, Field(ge=0, le=1), _nullable(Field(ge=0, le=1))]
"""A probability; null in JSON is nan."""


def parse_record(kind: type[T], text: str, *, may_repeat_keys: bool = False) -> T:
    """Read a record of type ``kind`` from JSON. Raises ``ValueError`` with one sentence that names the field.

    ``may_repeat_keys`` saves the search for keys that an object has twice, in lines that only this program writes.
    """
    try:
        adapter: TypeAdapter[T] = _adapter(kind)
        extra: Literal["forbid"] | None = None if issubclass(kind, BaseModel) else "forbid"
        # pydantic's parser refuses lone surrogates. In "\\ud800" the backslash is escaped, so group 1 keeps it.
        plain = _ESCAPED_SURROGATES.sub(lambda match: match[1] or "?", text)
        record: T = adapter.validate_json(plain, strict=True, extra=extra)
        content = None if may_repeat_keys and plain == text else load_json(text)
        return record if plain == text else adapter.validate_python(content, extra=extra)
    except ValidationError as error:
        raise ValueError(_describe(error)) from error
    except RecursionError as error:
        raise ValueError("is nested too deep") from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name a file in the errors of the block that reads it.

    Raises ``FileNotFoundError``, and ``ValueError`` with one sentence.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{path} cannot be read: {reason}") from error


def read_record(kind: type[T], path: Path) -> T:
    """Read a file with one record. Raises ``FileNotFoundError``, and ``ValueError`` naming the file and the field."""
    with reading(path):
        return parse_record(kind, read_text(path))


def _describe(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    if first["type"] == "value_error":  # raised by the record's own check, whose message names the field
        return first["msg"].removeprefix("Value error, ")
    rule = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] in ("missing", "json_invalid"):
        return f"{place}: {rule}" if place else rule
    return f"{place or 'the record'}: {rule}; got {short_repr(first['input'])}"
