"""Reads references of EgoProactive, OmniPro and Qualcomm Interactive Cooking; docs/data-formats.md describes them.

No form names a frame rate, so a video is sampled at ``FPS``, the default of a stream. **Source**: the data set
facebook/wearable-ai (EgoProactive, arXiv 2606.04970), ``README.md``; OmniPro (16d0cc3), ``metrics/online/scorer.py``
and ``evaluators/online_evaluator.py``; qualcomm/qualcomm-interactive-cooking-dataset (8f33f07), ``README.md``.
"""

import math
import re
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Final

from stepscope.engine.records import frame_at
from stepscope.eval.data.json_fields import Fields, check_number
from stepscope.eval.data.proactive_videoqa import FPS
from stepscope.eval.data.samples import Sample, Turn, turn_order

_DECISION: Final = re.compile(r"\s*\$(interrupt|silent)\$", re.IGNORECASE)
_TEXTS: Final = ("response", "state_to", "state", "position", "count")
"""Fields of a trigger of OmniPro that say what is right, by its task; without one, the question does."""
_ROUNDING: Final = 1e-6  # of a frame
_ROUNDING_S: Final = 0.0011  # programs round times to milliseconds


def is_egoproactive(fields: Fields) -> bool:
    """Whether a record holds the decisions of a video of EgoProactive."""
    return fields.has_list("video_intervals") and fields.has_list("answers")


def read_egoproactive(fields: Fields) -> Sample:
    """Read one video: each interval to interrupt in is a reply span. Raises ``ValueError`` naming the field."""
    turns = [Turn(time_s=0.0, role="user", text=fields.read_text("query"))] if fields.has("query") else []
    for one in list_decisions(fields):
        decision, words = read_decision(one, "answer")
        if decision == "interrupt":
            start_s, end_s = one.read_number("start"), one.read_number("end")
            end = end_s if end_s > start_s else None
            turns.append(Turn(time_s=start_s, role="assistant", text=words, end_s=end))
    path = fields.read_text("video_path")
    goal = fields.read_text("task") if isinstance(fields.record.get("task"), str) else ""
    return _make_sample(fields, PurePosixPath(path).stem, path, "duration_in_sec", turns, goal=goal)


def read_decision(fields: Fields, name: str) -> tuple[str, str]:
    """Return the decision of an answer, ``interrupt`` or ``silent``, and its words; the tag itself without words."""
    answer = fields.read_text(name)
    found = _DECISION.match(answer)
    if found is None:
        raise fields.error(name, "must begin with $interrupt$ or $silent$")
    return found[1].lower(), answer[found.end() :].strip() or found[0].strip()


def list_decisions(content: Fields) -> list[Fields]:
    """Return each interval with its answer, as ``start``, ``end`` and ``answer``."""
    intervals, answers = content.record.get("video_intervals"), content.record.get("answers")
    if not isinstance(intervals, list) or not isinstance(answers, list):
        raise content.error("video_intervals", "and answers must be lists")
    found: list[Fields] = []
    spans: list[tuple[float, float, str]] = []
    for number, (interval, answer) in enumerate(zip(intervals, answers, strict=False)):
        place = f"{content.path_prefix}video_intervals[{number}]"
        if not isinstance(interval, list) or len(interval) != 2:
            raise ValueError(f"{place} must be a list of start and end in seconds")
        start_s, end_s = (check_number(place, value, minimum=0) for value in interval)
        if end_s < start_s:
            raise ValueError(f"{place} must end after its start")
        record = {"start": start_s, "end": end_s, "answer": answer}
        found.append(Fields(record=record, path_prefix=f"{content.path_prefix}answers[{number}]."))
        spans.append((start_s, end_s, place))
    for (_, end_s, before), (start_s, _, place) in pairwise(sorted(spans)):
        if start_s < end_s - _ROUNDING_S:
            raise ValueError(f"{place} must not begin before {before} ends: each moment has one decision")
    return found


def is_omnipro(fields: Fields) -> bool:
    """Whether a record is a sample of OmniPro."""
    return fields.has_list("ground_truth") and fields.has("task") and fields.has("duration")


def read_omnipro(fields: Fields) -> Sample:
    """Read one sample: a reference at each trigger. Raises ``ValueError`` naming the field."""
    question = fields.read_text("question")
    asked_s = _read_clock(fields, "question_time") if fields.has("question_time") else 0.0
    turns = [Turn(time_s=asked_s, role="user", text=question)]
    for one in fields.read_objects("ground_truth"):
        name = next(name for name in ("trigger_time_sec", "trigger_time") if one.has(name) or name == "trigger_time")
        texts = (one.record.get(part) for part in _TEXTS)
        text = next((str(value) for value in texts if isinstance(value, str | int) and str(value).strip()), question)
        turns.append(Turn(time_s=_read_clock(one, name), role="assistant", text=text))
    return _make_sample(fields, fields.read_text("id"), fields.read_text("video_path"), "duration", turns)


def is_cooking(fields: Fields) -> bool:
    """Whether a record is a video of Qualcomm Interactive Cooking."""
    return fields.has_list("output_texts") and fields.has_list("output_timestamps")


def read_cooking(fields: Fields) -> Sample:
    """Read one video: a reference at each message. Raises ``ValueError`` naming the field.

    The form has no length: the video ends with the frame of its last message.
    """
    texts, times = fields.record["output_texts"], fields.record["output_timestamps"]
    if not isinstance(texts, list) or not isinstance(times, list) or len(texts) != len(times) or not texts:
        raise fields.error("output_texts", "must have one text for each of output_timestamps, at least one")
    turns = []
    for number, (text, time) in enumerate(zip(texts, times, strict=True)):
        one = Fields(record={"text": text}, path_prefix=f"{fields.path_prefix}output_texts[{number}].")
        time_s = check_number(f"{fields.path_prefix}output_timestamps[{number}]", time, minimum=0)
        turns.append(Turn(time_s=time_s, role="assistant", text=one.read_text("text")))
    num_frames = frame_at(max(turn.time_s for turn in turns), FPS) + 1
    fields.check_length("output_timestamps", num_frames, FPS)
    goal = fields.read_text("activity_name", may_be_blank=True) if fields.has("activity_name") else ""
    return _build_sample(fields.read_text("video_id"), None, num_frames, turns, goal=goal)


def _read_clock(fields: Fields, name: str) -> float:
    """Return a time in seconds, given as a number, or as ``01:05`` or ``01:02:05``."""
    value = fields.record.get(name)
    if not isinstance(value, str):
        return fields.read_number(name, minimum=0)
    if not re.fullmatch(r"(\d{1,3}:){1,2}\d{1,2}(\.\d{1,6})?", value.strip()):
        raise fields.error(name, "must be seconds, or minutes and seconds such as 01:05")
    seconds = 0.0
    for part in value.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def _make_sample(fields: Fields, video_id: str, path: str, length: str, turns: list[Turn], *, goal: str = "") -> Sample:
    num_frames = math.ceil(fields.read_number(length, minimum=1 / FPS) * FPS - _ROUNDING)
    fields.check_length(length, num_frames, FPS)
    return _build_sample(video_id, Path(path), num_frames, turns, goal=goal)


def _build_sample(video_id: str, path: Path | None, num_frames: int, turns: list[Turn], *, goal: str) -> Sample:
    return Sample(
        video_id=video_id,
        video_path=path,
        fps=FPS,
        num_frames=num_frames,
        goal=goal,
        steps=(),
        turns=tuple(sorted(turns, key=turn_order)),
        initial_state={},
    )
