"""Forms with one entry per second or segment; docs/result-files.md describes them.

**Source**: Streamo (6d1f1ab), ``inference.py`` and ``dataset/example/stream_format.json``; Omni-DuplexEval (ca3c122),
``README.md``, ``proactive_reminder.py`` and ``real_time_description.py``.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from stepscope.engine.plurals import format_count
from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.imports.system_output import (
    OtherVideoError,
    Result,
    ResultForm,
    SystemOutput,
    check_new_frame,
    file_name,
    find_by_file,
    find_by_names,
    place_entry,
    read_frame,
)

_SECOND: Final = re.compile(r"<([0-9]{1,9}(?:\.[0-9]{1,6})?)s-[0-9.]{1,16}s>")
_STATE: Final = re.compile(r"\s*</?(\w{1,40})/?>")
_RESPONDING: Final = "response"
_ROUND: Final = re.compile(r"[Rr]ound[ _]?([0-9]{1,9})")
_TEXTS: Final = ("sentence", "text", "content")
_TIMES: Final = ("start", "current_time", "time")
SEGMENT_LISTS: Final = ("sentences", "chunks")


def _find_streamo(result: Result, split: Split) -> Sample:
    videos = result.fields.record.get("videos")
    named = [result.fields.record.get(name) for name in ("video_name", "video_path")]
    named += videos[:1] if isinstance(videos, list) else []
    names = [file_name(name) for name in named if isinstance(name, str) and name.strip()]
    return find_by_names(names, split) if names else find_by_file([result.path.name], split)


def _read_rounds(content: Fields, sample: Sample) -> SystemOutput:
    """Read the answers of a video: a round shows the frame at its second, at any ``target_fps``."""
    output = SystemOutput()
    answers = content.read_object("output")
    for name in answers.record:
        number = _ROUND.fullmatch(name)
        if number is None:
            raise answers.error(name, "must be named as a round, such as Round 4")
        frame = place_entry(answers, name, float(number[1]), sample)
        _add_answer(output, answers, name, frame, sample)
    return output.hold_within_seconds(sample)


def _read_streamo(content: Fields, sample: Sample) -> SystemOutput:
    output = SystemOutput()
    frame: int | None = None
    for message in content.read_objects("messages"):
        role = message.read_choice("role", ("system", "user", "assistant"))
        words = message.read_text("content", may_be_blank=True)
        if role == "user" and (found := _SECOND.search(words)):
            frame = place_entry(message, "content", float(found[1]), sample)
        if role != "assistant":
            continue
        if frame is None:
            raise message.error("role", "must follow a user entry with a second, such as <3s-4s>")
        _add_answer(output, message, "content", frame, sample)
    return output.hold_within_seconds(sample)


def _add_answer(output: SystemOutput, fields: Fields, name: str, frame: int, sample: Sample) -> None:
    answer = fields.read_text(name, may_be_blank=True)
    token = _STATE.match(answer)
    if token is None:
        raise fields.error(name, "must begin with a state token, such as </Silence>")
    check_new_frame(fields, name, frame, output.states, sample)
    output.states[frame] = token[1].lower()
    if output.states[frame] == _RESPONDING:
        output.add_text(frame, answer[token.end() :])


def _has_rounds(fields: Fields) -> bool:
    output = fields.record.get("output")
    return isinstance(output, dict) and any(_ROUND.fullmatch(name) for name in output)


def _read_duplex(content: Fields, sample: Sample) -> SystemOutput:
    output, num_untimed = SystemOutput(at_least=sample.num_frames), 0
    name = next(filter(content.has_list, SEGMENT_LISTS))
    for segment in content.read_objects(name):
        text, time = _find_field(segment, _TEXTS), _find_field(segment, _TIMES)
        if not any(name in segment.record for name in _TEXTS):
            raise segment.error(_TEXTS[0], "must be text")
        if text is None or not segment.read_text(text, may_be_blank=True).strip():
            continue
        if time is not None:
            segment = _read_typed_number(segment, time)
        frame = 0 if time is None else read_frame(segment, time, sample)
        output.add_text(frame, segment.read_text(text))
        num_untimed += time is None
    if num_untimed:
        output.warn(f"{format_count(num_untimed, 'segment')} without a time counted at 0 s")
    return output


def is_segment(entry: Mapping[str, object]) -> bool:
    """Whether an object of a list is a segment; ``content`` alone is of many forms."""
    fields = Fields(record=entry)
    return any(fields.has(name) for name in _TEXTS[:2]) or (
        "content" in entry and _find_field(fields, _TIMES) is not None
    )


def _find_field(fields: Fields, names: Iterable[str]) -> str | None:
    return next((name for name in names if fields.has(name)), None)


def _read_typed_number(fields: Fields, name: str) -> Fields:
    """Return the fields with a number for one that is written as text, such as ``"4.0"``."""
    value = fields.record[name]
    if not isinstance(value, str):
        return fields
    try:
        return replace(fields, record={**fields.record, name: float(value)})
    except ValueError:
        return fields


def _find_duplex(result: Result, split: Split) -> Sample:
    named = [result.fields.record.get(name) for name in ("id", "sample_id")]
    names = [str(name) for name in named if isinstance(name, str | int) and str(name).strip()]
    with suppress(OtherVideoError):  # the name of the file counts, as in the benchmark
        return find_by_names(names, split)
    return find_by_file([result.path.name], split)


STREAMO_ROUNDS: Final = ResultForm(name="Streamo", matches=_has_rounds, find_sample=_find_streamo, read=_read_rounds)
STREAMO: Final = ResultForm(
    name="Streamo or JoyAI-VL",
    matches=lambda fields: fields.has_list("messages") and bool(fields.record["messages"]),
    find_sample=_find_streamo,
    read=_read_streamo,
)
DUPLEX: Final = ResultForm(
    name="Omni-DuplexEval",
    missing="probabilities, states of the steps, latencies, cache lengths, the last frame that was run",
    matches=lambda fields: any(map(fields.has_list, SEGMENT_LISTS)),
    find_sample=_find_duplex,
    read=_read_duplex,
)
