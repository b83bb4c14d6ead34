"""Write rows as WebVTT captions; the voice of a cue is the name of its track.

Texts are escaped, so that they cannot contain tags or end a cue. NUL, which the format forbids, becomes U+FFFD.
"""

from pathlib import Path

from stepscope.app.exports.rows import Tables
from stepscope.app.exports.spans import list_spans
from stepscope.engine.io.files import atomic_write

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;", "\0": "\ufffd"})


def write_webvtt(path: Path, tables: Tables) -> None:
    """Write the rows of one video as captions, sorted by start."""
    cues = ["WEBVTT\n"]
    for number, span in enumerate(sorted(list_spans(tables), key=lambda span: span.start_ms), start=1):
        times = f"{_clock(span.start_ms)} --> {_clock(span.end_ms)}"
        cues.append(f"{number}\n{times}\n<v {span.track.translate(_ESCAPES)}>{span.text.translate(_ESCAPES)}\n")
    with atomic_write(path) as file:
        file.write("\n".join(cues))


def _clock(time_ms: int) -> str:
    seconds, ms = divmod(time_ms, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
