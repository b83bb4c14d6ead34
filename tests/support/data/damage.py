"""Damage of files: changed values, any other JSON, lost bytes; and the refusal that follows."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st


def change(path: Path, **changes: object) -> None:
    """Change fields of the first line of a JSON file, or of all of it."""
    first, *rest = path.read_text().splitlines(keepends=True) if path.suffix == ".jsonl" else [path.read_text()]
    path.write_text(json.dumps({**json.loads(first), **changes}) + "\n" + "".join(rest))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, 2**63])
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["S1", "completed", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def mutate(value: Any, draw: Callable[[Any], Any]) -> Any:
    """Return a JSON value with one random part replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 9)) == 0:
            return {key: part for key, part in value.items() if key != name}
        return {**value, name: mutate(value[name], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], mutate(value[place], draw), *value[place + 1 :]]
    return draw(JSON)


def damage(path: Path, draw: Callable[[Any], Any]) -> None:
    """Change a value of a file, or its bytes, or take it away."""
    how = draw(st.sampled_from(["value", "value", "value", "bytes", "cut", "remove", "folder"]))
    content = path.read_bytes()
    if how == "value" and path.suffix != ".csv":
        lines = content.decode().splitlines() if path.suffix == ".jsonl" else [content.decode()]
        place = draw(st.integers(0, len(lines) - 1))
        lines[place] = json.dumps(mutate(json.loads(lines[place]), draw))
        path.write_text("\n".join(lines) + "\n")
    elif how in ("value", "bytes"):
        at = draw(st.integers(0, len(content)))
        path.write_bytes(content[:at] + draw(st.binary(max_size=4)) + content[at + draw(st.integers(0, 3)) :])
    elif how == "cut":
        path.write_bytes(content[: draw(st.integers(0, len(content)))])
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()


def copy_of(whole: Path, name: str) -> Path:
    copy = whole.parent / name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole, copy)
    return copy


def refusal_of(read: Callable[[], object]) -> str:
    """Return the sentence that something is refused with; nothing when it works."""
    try:
        read()
    except ValueError as error:
        return str(error) or "no reason"
    return ""


few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
