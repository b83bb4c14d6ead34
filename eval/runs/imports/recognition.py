"""Recognises the result files of other systems by their content.

``FORMS`` lists the forms; the modules of ``eval.runs.imports`` describe them. A file holds one JSON value, JSON
lines, WebVTT or SRT, with one record or several. A record of no known form is refused.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from stepscope.engine.io.files import load_json, load_json_lines, read_text
from stepscope.engine.io.json_records import short_repr
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.runs.imports import minicpm, per_frame, per_second, timed_texts
from stepscope.eval.runs.imports.system_output import Result, ResultForm

FORMS: Final = (
    per_frame.PROASSIST,
    per_frame.VIDEOLLM_ONLINE,
    per_frame.MMDUET,
    per_frame.PREDICTIONS,
    minicpm.RECORDING,
    minicpm.STREAM,
    per_second.STREAMO_ROUNDS,
    per_second.STREAMO,
    timed_texts.QUALCOMM,
    timed_texts.QEVD,
    timed_texts.SPOT,
    timed_texts.STREAMING_VLM,
    per_frame.EGOPROACTIVE,
    per_frame.EM_GARDE,
    per_second.DUPLEX,
    timed_texts.OMNIPRO,
)
"""In the order of recognition: the first that matches a record is its form."""
_SUBTITLES: Final = re.compile(r"\ufeff?(?:WEBVTT|\s*\d{1,9}[^\S\n]*\n\s*[\d:]{1,12}[.,]\d{1,9} *-->)", re.ASCII)
"""Begin of a WebVTT file, or the number and the time of the first cue of an SRT file."""


def recognize(path: Path, value: object) -> tuple[Result, ResultForm]:
    """Return a record with its form. Raises ``ValueError`` if it has none of ``FORMS``."""
    if isinstance(value, dict):
        result = Result(path=path, fields=Fields(record=value))
        form = next((form for form in FORMS if form.matches(result.fields)), None)
        if form is not None:
            return result, form
        if "streamingharness" in value:
            raise ValueError(
                "is an answer of JoyAI-VL's server, which holds no time in a video; give the answers of each second, "
                "in the form of Streamo or JoyAI-VL"
            )
    raise ValueError(f"is of no known form; give a result of {', '.join(form.name for form in FORMS)}")


def read_values(path: Path, problems: dict[str, str]) -> Iterator[tuple[str, object]]:
    """Yield the place and the value of each record of a file; add a file or line that is not JSON to ``problems``."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        problems[str(path)] = f"{path} cannot be read as JSON: {error}"
        return
    if _SUBTITLES.match(text):
        try:
            content = timed_texts.parse_webvtt(text)
        except ValueError as error:
            problems[str(path)] = f"{path} cannot be read as subtitles: {error}"
        else:
            yield str(path), content
        return
    yield from _group_events(_parse_values(path, text, problems))


def _parse_values(path: Path, text: str, problems: dict[str, str]) -> Iterator[tuple[str, object]]:
    try:
        yield from _list_records(path, load_json(text))
        return
    except ValueError as error:
        lines = list(load_json_lines(text))
        if len(lines) < 2 or all(problem for _, _, problem in lines):
            problems[str(path)] = f"{path} cannot be read as JSON: {error}"
            return
    for number, value, problem in lines:
        place = f"{path}, line {number}"
        if problem:
            problems[place] = f"{place} cannot be read as JSON: {problem}"
        else:
            yield place, value


def _group_events(values: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """Yield values, the lines of a recording, or the segments of one, as one record, at the place of the first line."""
    kinds: tuple[tuple[str, Callable[[object], bool]], ...] = (
        (minicpm.EVENTS, minicpm.is_event),
        (timed_texts.SEGMENTS, timed_texts.is_segment),
    )
    grouped: dict[str, tuple[str, list[object]]] = {}
    for place, value in values:
        name = next((name for name, is_line in kinds if is_line(value)), None)
        if name is None:
            yield place, value
        else:
            grouped.setdefault(name, (place, []))[1].append(value)
    yield from ((place, {name: lines}) for name, (place, lines) in grouped.items())


def _list_records(path: Path, content: object) -> list[tuple[str, object]]:
    """Return the records of a JSON value: itself, the entries of a list, or a list of chunks or segments as one.

    An object of SPOT-Bench has a record for each video.
    """
    if timed_texts.is_events_by_video(content):
        assert isinstance(content, dict)
        spot = ({timed_texts.SPOT_VIDEO: video, "events": events} for video, events in content.items())
        return [(f"{path}, video {short_repr(one[timed_texts.SPOT_VIDEO])}", one) for one in spot]
    if not isinstance(content, list) or not content:
        return [(str(path), content)]
    entries = [entry for entry in content if isinstance(entry, dict)]
    if entries and all("result" in entry for entry in entries):
        return [(str(path), {"chunks": content})]
    if entries and all(map(timed_texts.is_segment, entries)):
        return [(str(path), {timed_texts.SEGMENTS: content})]
    if entries and all(map(per_second.is_segment, entries)):
        return [(str(path), {"sentences": content})]
    return [(f"{path}, entry {number}", value) for number, value in enumerate(content)]
