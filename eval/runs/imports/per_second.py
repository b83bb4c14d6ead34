"""Forms with one entry per second or segment: Streamo and JoyAI-VL, and Omni-DuplexEval.

Streamo and JoyAI-VL: ``messages``, user entries with ``<3s-4s>`` and assistant entries that begin with a state token,
``</Silence>``, ``</Standby>``, ``</Response>`` or ``</Delegate>``, and ``video_name`` or ``videos``. A message is at
the start of its second, and the state holds for all frames of it. **Source**: Streamo (6d1f1ab),
``dataset/example/stream_format.json``.

Omni-DuplexEval: a list, or ``chunks`` or ``sentences``, of segments with ``sentence`` or ``text``, and ``start`` or
``current_time`` in seconds. The file's name is the sample's id. **Source**: Omni-DuplexEval (962cec4), ``README.md``.
"""

import re
from pathlib import PurePosixPath
from typing import Final

from engine.dialogue import MAX_SECONDS
from engine.records import frame_at
from eval.data.json_fields import Fields
from eval.data.samples import Sample, Split
from eval.runs.imports.system_output import (
    Result,
    ResultForm,
    SystemOutput,
    add_text,
    check_new_frame,
    find_by_names,
    hold_within_second,
    read_frame,
)

_SECOND: Final = re.compile(r"<([0-9]{1,9}(?:\.[0-9]{1,6})?)s-[0-9.]{1,16}s>")
_STATE: Final = re.compile(r"\s*</?(\w{1,40})/?>")
_RESPONDING: Final = "response"
SEGMENT_LISTS: Final = ("sentences", "chunks")


def _find_streamo(result: Result, split: Split) -> Sample:
    if result.fields.has("video_name"):
        return find_by_names([PurePosixPath(result.fields.read_text("video_name")).name], split)
    videos = result.fields.record.get("videos")
    if not isinstance(videos, list) or not videos or not isinstance(videos[0], str):
        raise result.fields.error("video_name", "must be the name of the video's file")
    return find_by_names([PurePosixPath(videos[0]).name], split)


def _read_streamo(content: Fields, sample: Sample) -> SystemOutput:
    texts: dict[int, str] = {}
    states: dict[int, str] = {}
    frame: int | None = None
    for message in content.read_objects("messages"):
        role = message.read_choice("role", ("system", "user", "assistant"))
        words = message.read_text("content", may_be_blank=True)
        if role == "user" and (found := _SECOND.search(words)):
            if float(found[1]) > MAX_SECONDS:
                raise message.error("content", f"must name a second of at most {MAX_SECONDS:g}")
            frame = frame_at(float(found[1]), sample.fps)
        if role != "assistant":
            continue
        token = _STATE.match(words)
        if frame is None:
            raise message.error("role", "must follow a user entry with a second, such as <3s-4s>")
        if token is None:
            raise message.error("content", "must begin with a state token, such as </Silence>")
        check_new_frame(message, "content", frame, states, sample)
        states[frame] = token[1].lower()
        if states[frame] == _RESPONDING:
            add_text(texts, frame, words[token.end() :])
    states = hold_within_second(states, sample)
    return SystemOutput(num_frames=max(states, default=-1) + 1, texts=texts, states=states)


def _is_streamo(fields: Fields) -> bool:
    messages = fields.record.get("messages")
    return isinstance(messages, list) and bool(messages)


def _read_duplex(content: Fields, sample: Sample) -> SystemOutput:
    texts: dict[int, str] = {}
    name = next(name for name in SEGMENT_LISTS if isinstance(content.record.get(name), list))
    for segment in content.read_objects(name):
        text = segment.read_text("sentence" if segment.has("sentence") else "text", may_be_blank=True)
        add_text(texts, read_frame(segment, "start" if segment.has("start") else "current_time", sample), text)
    return SystemOutput(num_frames=max([sample.num_frames - 1, *texts]) + 1, texts=texts)


def _is_duplex(fields: Fields) -> bool:
    return any(isinstance(fields.record.get(name), list) for name in SEGMENT_LISTS)


STREAMO: Final = ResultForm(
    name="Streamo or JoyAI-VL",
    missing="probabilities, states of the steps, latencies, cache lengths",
    matches=_is_streamo,
    find_sample=_find_streamo,
    read=_read_streamo,
)
DUPLEX: Final = ResultForm(
    name="Omni-DuplexEval",
    missing="probabilities, states of the steps, latencies, cache lengths, the last frame that was run",
    matches=_is_duplex,
    find_sample=lambda result, split: find_by_names([result.path.name], split),
    read=_read_duplex,
)
