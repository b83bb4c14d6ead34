"""Text of figures: one line of an untrusted text, and the markup that Plotly reads in texts."""

import re
from html import escape, unescape
from typing import Final

from stepscope.engine.io.files import replace_surrogates

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]+")
"""Characters that XML forbids, or that do not belong on one line."""
LINE: Final = 1.3
"""Distance of the lines of a text in font sizes, as in Plotly."""
MAX_TEXT: Final = 300
"""Longest text of a mark or of its hover text, in characters."""


def clean_text(text: str) -> str:
    """Return an untrusted text as one line of at most ``MAX_TEXT`` characters that UTF-8 and XML can hold."""
    line = _CONTROLS.sub(" ", replace_surrogates(text[: MAX_TEXT + 1])).strip()
    return line if len(text) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def to_markup(text: str) -> str:
    """Return plain text as Plotly's markup, in which ``<b>`` and ``&`` are only characters."""
    return escape(text, quote=False)


def from_markup(text: str) -> str:
    """Return the characters of Plotly's markup, one line for each ``<br>``, without its tags."""
    lines = re.sub(r"<br\s*/?>", "\n", text, flags=re.IGNORECASE)
    return unescape(re.sub(r"</?[a-zA-Z][^<>]*>", "", lines))
