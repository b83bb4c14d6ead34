"""Text of figures: widths without a browser, line breaks, and the markup that Plotly reads in texts.

Widths are those of DejaVu Sans, the widest of the common sans-serif fonts, so that a text that fits also fits in the
font of another machine.
"""

import re
import unicodedata
from html import escape, unescape
from typing import Final

from stepscope.engine.io.files import replace_surrogates

_WIDTHS: Final = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337),  # from the space to /
    *(636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531),  # from 0 to ?
    *(1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787),  # from @ to O
    *(603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500),  # from P to _
    *(500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612),  # from ` to o
    *(635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),  # from p to ~
)
"""Advance widths of the printable ASCII characters, in thousandths of the font size."""
_OTHER_WIDTH: Final = 700
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]+")
"""Characters that XML forbids, or that do not belong on one line."""
LINE: Final = 1.3
"""Distance of the lines of a text in font sizes, as in Plotly."""
MAX_TEXT: Final = 300
"""Longest text of a mark or of its hover text, in characters."""


def text_width(text: str, size_px: float) -> float:
    """Return the width of one line in pixels, at a font size in pixels."""
    return sum(map(_char_width, text)) * size_px / 1000


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


def fit_text(text: str, width_px: float, size_px: float) -> str:
    """Return the text, cut with an ellipsis to a width; empty if not even one character fits."""
    if text_width(text, size_px) <= width_px:
        return text
    room = width_px - text_width("…", size_px)
    used, kept = 0.0, 0
    for char in text:
        used += _char_width(char) * size_px / 1000
        if used > room:
            break
        kept += 1
    return f"{text[:kept].rstrip()}…" if kept else ""


def wrap_text(text: str, width_px: float, size_px: float, *, max_lines: int) -> list[str]:
    """Break a text at spaces into at most ``max_lines`` lines; the last one is cut with an ellipsis.

    ``in the end`` in two lines that are as wide as ``the…`` gives ``in`` and ``the…``.
    """
    words, lines = text.split(), list[str]()
    while words and len(lines) < max_lines:
        if len(lines) == max_lines - 1:
            lines.append(fit_text(" ".join(words), width_px, size_px))
            break
        count = 1
        while count < len(words) and text_width(" ".join(words[: count + 1]), size_px) <= width_px:
            count += 1
        line = " ".join(words[:count])
        if text_width(line, size_px) > width_px:  # one word that is too long
            lines.append(fit_text(" ".join(words), width_px, size_px))
            break
        lines.append(line)
        words = words[count:]
    return [line for line in lines if line]


def _char_width(char: str) -> int:
    if " " <= char <= "~":
        return _WIDTHS[ord(char) - 32]
    if unicodedata.east_asian_width(char) in "WF":
        return 1000
    return 0 if unicodedata.combining(char) else _OTHER_WIDTH
