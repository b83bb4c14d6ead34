"""Rows as timed texts on named tracks, for players and annotation tools, and as WebVTT. Times are whole milliseconds.

Track names are ``model: assistant``, ``reference: user``, ``corrected: update``, ``model state: S1``,
``assistant state``, ``verdicts: NAME``. A turn with a reply span is shown for the span. An instant has no end time: it
is shown for ``TURN_DURATION_MS``, at most to the end of the video.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stepscope.app.exports.rows import Tables
from stepscope.engine.io.files import atomic_write

TURN_DURATION_MS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedText:
    """A text with a start and an end."""

    track: str
    start_ms: int
    end_ms: int
    """End in milliseconds, greater than ``start_ms``."""
    text: str


def list_spans(tables: Tables) -> tuple[TimedText, ...]:
    """Return the spans of one video's rows, sorted by track and start."""
    return tuple(sorted(_spans(tables), key=lambda span: (_rank(span.track), span.track, span.start_ms)))


def to_ms(time_s: float) -> int:
    """Return a time in whole milliseconds; negative times become 0."""
    return max(0, round(time_s * 1000))


def split_lanes(spans: Iterable[TimedText]) -> list[list[TimedText]]:
    """Distribute the spans of one track over the fewest lanes without overlaps, cutting ends where needed.

    Spans with different starts share a lane; each is cut at the start of the next. Example: starts 0, 3, 3 with a
    duration of 4 give the lanes [0-3, 3-7] and [3-7].
    """
    lanes: list[list[TimedText]] = []
    for span in sorted(spans, key=lambda span: span.start_ms):
        lane = next((lane for lane in lanes if lane[-1].start_ms < span.start_ms), None)
        if lane is None:
            lanes.append([span])
            continue
        last = lane[-1]
        end_ms = min(last.end_ms, span.start_ms)
        lane[-1] = TimedText(track=last.track, start_ms=last.start_ms, end_ms=end_ms, text=last.text)
        lane.append(span)
    return lanes


def _spans(tables: Tables) -> Iterator[TimedText]:
    last = max((to_ms(row.end_s) for row in tables.states), default=0)
    for prediction in tables.predictions:
        yield _turn_span(f"model: {prediction.role}", prediction.time_s, prediction.text, last)
    for reference in tables.references:
        yield _turn_span(
            f"{reference.layer}: {reference.role}", reference.time_s, reference.text, last, reference.end_s
        )
    for state in tables.states:
        start_ms, end_ms = to_ms(state.start_s), to_ms(state.end_s)
        track = f"{state.source} state: {state.step_id}" if state.step_id else f"{state.source} state"
        yield TimedText(track=track, start_ms=start_ms, end_ms=max(end_ms, start_ms + 1), text=state.state)
    for row in tables.verdicts:
        tags = f" [{', '.join(row.tags)}]" if row.tags else ""
        note = f": {row.note}" if row.note else ""
        text = f"{row.verdict or 'no verdict'}{tags}{note} ({row.event_kind})"
        yield _turn_span(f"verdicts: {row.reviewer}", row.event_time_s, text, last)


def _turn_span(track: str, time_s: float, text: str, last_ms: int, end_s: float | None = None) -> TimedText:
    start_ms = to_ms(time_s)
    if end_s is not None:
        return TimedText(track=track, start_ms=start_ms, end_ms=max(to_ms(end_s), start_ms + 1), text=text)
    end_ms = start_ms + TURN_DURATION_MS
    if start_ms < last_ms:
        end_ms = min(end_ms, last_ms)
    return TimedText(track=track, start_ms=start_ms, end_ms=end_ms, text=text)


def _rank(track: str) -> int:
    states = ("corrected state", "reference state", "model state", "assistant state")
    return ("corrected", "reference", "model", *states, "verdicts").index(track.partition(":")[0])


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
