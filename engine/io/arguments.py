"""Checks the arguments of public functions; an error is one sentence that names the argument."""

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from os import PathLike
from typing import TypeVar

from stepscope.engine.io.json_records import short_repr

Value = TypeVar("Value")


def check_type(name: str, value: object, kinds: type | tuple[type, ...], rule: str) -> None:
    """Raise ``ValueError`` unless a value has one of these types; ``rule`` names them, such as ``a dict``."""
    if not isinstance(value, kinds):
        raise ValueError(f"{name} must be {rule}; got {short_repr(value)}")


def check_list(name: str, values: Iterable[Value], kind: type, rule: str) -> tuple[Value, ...]:
    """Return values as a tuple. Raises ``ValueError`` unless all have a type; a text is no list of texts."""
    found = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str | Mapping) else None
    if found is None or not all(isinstance(value, kind) for value in found):
        raise ValueError(f"{name} must be {rule}; got {short_repr(values if found is None else list(found))}")
    return found


def check_path(name: str, value: object) -> None:
    """Raise ``ValueError`` unless a value is a path."""
    check_type(name, value, (str, PathLike), "a path")


def check_finite(name: str, value: object) -> None:
    """Raise ``ValueError`` unless a value is a finite number."""
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number; got {short_repr(value)}")
