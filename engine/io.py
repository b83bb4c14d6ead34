"""Texts from outside may hold half a surrogate pair, which Python and JSON can say and UTF-8 cannot.

Records of runs keep such a text as it came, and JSON files escape it, so that it comes back. Where only UTF-8 will do,
in a model, a table, XML, an answer to a browser, and in what splits and reviewers give, each half becomes ``?``.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_HALVES = re.compile("[\ud800-\udfff]")


def plain(text: str) -> str:
    """Return a text that UTF-8 can hold."""
    return _HALVES.sub("?", text)


def plain_all(content: Any) -> Any:
    """Return a JSON value in which every text is such that UTF-8 can hold it."""
    if isinstance(content, str):
        return plain(content)
    if isinstance(content, Mapping):
        return {plain_all(key): plain_all(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain_all(value) for value in content]
    return content


def to_json(content: object, *, indent: int | None = None) -> str:
    """Return JSON that UTF-8 can hold and that loads again as it was. Raises ``ValueError`` for nan and infinity."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent)
    return _HALVES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def load_json(text: str) -> Any:
    """Return what a JSON text holds. Raises ``ValueError``, in one line, even for a text that is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deep", text[:1], 0) from None
