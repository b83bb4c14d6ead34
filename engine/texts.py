"""Texts from outside may hold half a surrogate pair, which Python and JSON can say and UTF-8 cannot.

Records keep such a text as it came, and JSON files escape it, so that it comes back. Where only UTF-8 will do, in a
model, a table or XML, each half becomes ``?``.
"""

import json
import re

_HALVES = re.compile("[\ud800-\udfff]")


def plain(text: str) -> str:
    """Return a text that UTF-8 can hold."""
    return _HALVES.sub("?", text)


def to_json(content: object, *, indent: int | None = None) -> str:
    """Return JSON that UTF-8 can hold and that loads again as it was. Raises ``ValueError`` for nan and infinity."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=indent)
    return _HALVES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
