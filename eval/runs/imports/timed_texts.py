"""Forms with the times and texts of replies; docs/result-files.md describes them.

**Source**: Qualcomm Interactive Cooking, arXiv 2511.21998; QEVD, varworkshop/ai_coach_fitness_2026 (b829971),
``qwen3_vl_baseline.py``; OmniPro (16d0cc3), ``evaluators/online_evaluator.py``; SPOT-Bench (035eea2),
``model_wrappers/base_model.py`` and ``evals/config.py``; StreamingVLM (a940d8c), ``inference.py``.
"""

import re
from html import unescape
from typing import Any, Final

from stepscope.engine.dialogue import MAX_SECONDS
from stepscope.engine.io.json_records import short_repr
from stepscope.eval.data.json_fields import Fields, parse_clock
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.imports.system_output import (
    ResultForm,
    SystemOutput,
    end_frame,
    find_by,
    find_by_file,
    read_frame,
)

SPOT_VIDEO: Final = "spot_video"
"""Name under which the key of a video of SPOT-Bench is in the record that the reader makes of it."""
SEGMENTS: Final = "segments"
"""Name of the list in the record that the reader makes of the segments of StreamingVLM."""
_QEVD_TIMES: Final = "pred_feedback_timestamps"
_LAST_UNIX_S: Final = 1e11
_SILENCE: Final = frozenset({"no", "none", "nothing", "no answer", "no response", "no reply"})
_MISSING: Final = "probabilities, states of the steps, latencies, cache lengths, the last frame that was run"
_INFERENCE: Final = re.compile(r"\s*Infer Time:\s*([0-9]{1,6}(?:\.[0-9]{1,9})?)\s*s\b", re.IGNORECASE)
_SILENT_ENDS: Final = re.compile(r"(?<!\S)(?:\.{3}|…)(?!\S)")
"""The word with which StreamingVLM ends the text of each second."""
_MARKUP: Final = re.compile(r"</?(?:[vcibu]|ruby|rt|lang|font|\d\d:)[^<>\n]*>|\{\\an?\d\}")
"""Marks of speakers, styles and times in subtitles."""
_EXPORT: Final = re.compile("<v (?:reference|corrected|model)(?: state)?: ")
"""A voice of the WebVTT that StepScope exports, which has the reference beside the model."""
_CUE: Final = re.compile(
    r"^\s*((?:\d{1,4}:)?\d{1,2}:\d{1,2}[.,]\d{1,6})\s*-->\s*((?:\d{1,4}:)?\d{1,2}:\d{1,2}[.,]\d{1,6})", re.ASCII
)


def is_segment(value: object) -> bool:
    """Whether a line is a segment of StreamingVLM."""
    return isinstance(value, dict) and value.get("type") == "segment" and "start" in value


def is_events_by_video(content: object) -> bool:
    """Whether a JSON value is a result file of SPOT-Bench: lists of events by video."""
    return (
        isinstance(content, dict)
        and bool(content)
        and all(isinstance(events, list) and all(map(_is_event, events)) for events in content.values())
        and any(content.values())
    )


def parse_webvtt(text: str) -> dict[str, Any]:
    """Return the record of a WebVTT file: its cues as segments. Raises ``ValueError`` for a cue without a time."""
    segments: list[dict[str, Any]] = []
    for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.strip("\n").split("\n")
        place = next((number for number, line in enumerate(lines) if _CUE.match(line)), None)
        if place is not None:
            found = _CUE.match(lines[place])
            assert found is not None
            words = " ".join(lines[place + 1 :])
            if _EXPORT.search(words):
                raise ValueError("an export of a review has the reference, too; import the outputs of its run instead")
            words = unescape(_MARKUP.sub("", words))
            start_s, end_s = (parse_clock(time.replace(",", ".")) for time in found.groups())
            segments.append({"start": start_s, "end": end_s, "text": words})
        elif (wrong := next((line for line in lines if "-->" in line), None)) is not None:
            raise ValueError(f"a cue has a time such as 00:00:01.000 --> 00:00:02.000; got {short_repr(wrong)}")
    return {SEGMENTS: segments}


def _is_event(event: object) -> bool:
    return isinstance(event, dict) and {"time", "type", "value"} <= event.keys()


def _read_lists(content: Fields, texts_name: str, times_name: str, sample: Sample) -> SystemOutput:
    times, words = content.record[times_name], content.record[texts_name]
    if not isinstance(times, list) or not isinstance(words, list) or len(times) != len(words):
        raise content.error(times_name, f"must be a list with a time for each of {texts_name}")
    output = SystemOutput(at_least=sample.num_frames)
    for number, (time_s, text) in enumerate(zip(times, words, strict=True)):
        one = Fields(record={"time": time_s, "text": text}, path_prefix=f"{texts_name}[{number}].")
        output.add_reply(one, "time", one.read_text("text", may_be_blank=True), sample)
    return output


def _read_qevd(content: Fields, sample: Sample) -> SystemOutput:
    given = content.record[_QEVD_TIMES]
    times = given if isinstance(given, list) else []
    if any(map(_is_unix_time, times)):
        if sample.clock_s is None:
            raise content.error(
                _QEVD_TIMES, "must be seconds; for Unix times choose the references of QEVD as the split"
            )
        times = [time_s - sample.clock_s if _is_unix_time(time_s) else time_s for time_s in times]
        content = Fields(record={**content.record, _QEVD_TIMES: times}, path_prefix=content.path_prefix)
    return _read_lists(content, "pred_feedbacks", _QEVD_TIMES, sample)


def _is_unix_time(time_s: object) -> bool:
    return isinstance(time_s, int | float) and MAX_SECONDS < time_s < _LAST_UNIX_S


def _read_omnipro(content: Fields, sample: Sample) -> SystemOutput:
    output = SystemOutput(at_least=sample.num_frames)
    for one in content.read_objects("predictions"):
        output.add_reply(one, "t_sec", one.read_text("raw", may_be_blank=True), sample)
    return output


def _read_spot(content: Fields, sample: Sample) -> SystemOutput:
    output = SystemOutput(at_least=sample.num_frames)
    for event in content.read_objects("events"):
        if event.read_text("type") != "response":
            continue
        text = event.read_text("value", may_be_blank=True)
        output.add_reply(event, "time", "" if text.strip().strip(".,!?").lower() in _SILENCE else text, sample)
        if event.has("latency"):
            output.signals[read_frame(event, "time", sample)] = {"latency_s": event.read_number("latency", minimum=0)}
    return output


def _read_segments(content: Fields, sample: Sample) -> SystemOutput:
    output = SystemOutput()
    for segment in content.read_objects(SEGMENTS):
        frame = read_frame(segment, "start", sample)
        end = end_frame(segment.read_number("end", minimum=0), sample)
        output.at_least = max(output.at_least, frame + 1, end)
        text = segment.read_text("text", may_be_blank=True)
        if (inference := _INFERENCE.match(text)) is not None:
            output.costs_s[frame] = output.costs_s.get(frame, 0.0) + float(inference[1])
            text = text[inference.end() :]
        text = " ".join(_SILENT_ENDS.sub(" ", text).split())
        if text.strip(". …"):
            output.add_text(frame, text)
    return output


QUALCOMM: Final = ResultForm(
    name="Qualcomm Interactive Cooking",
    missing=_MISSING,
    matches=lambda fields: fields.has("pred_texts") and fields.has("pred_timestamps"),
    find_sample=find_by("video_id"),
    read=lambda content, sample: _read_lists(content, "pred_texts", "pred_timestamps", sample),
)
QEVD: Final = ResultForm(
    name="QEVD",
    missing=_MISSING,
    matches=lambda fields: fields.has("pred_feedbacks") and fields.has(_QEVD_TIMES),
    find_sample=find_by("mini_episode_id"),
    read=_read_qevd,
)
OMNIPRO: Final = ResultForm(
    name="OmniPro",
    missing=_MISSING,
    matches=lambda fields: fields.has_list("predictions") and (fields.has("id") or fields.has("video_id")),
    find_sample=find_by("id", "video_id"),
    read=_read_omnipro,
)
SPOT: Final = ResultForm(
    name="SPOT-Bench",
    missing="probabilities, states of the steps, cache lengths, the last frame that was run",
    matches=lambda fields: fields.has(SPOT_VIDEO),
    find_sample=find_by(SPOT_VIDEO),
    read=_read_spot,
)
STREAMING_VLM: Final = ResultForm(
    name="StreamingVLM",
    missing="probabilities, states of the steps, cache lengths, and without a line Infer Time latencies",
    matches=lambda fields: fields.has_list(SEGMENTS),
    find_sample=lambda result, split: find_by_file([result.path.name], split),
    read=_read_segments,
)
