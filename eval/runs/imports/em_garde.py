"""Em-Garde's online evaluation: JSON lines, an object per question, with a similarity per step and proposal.

``id``, ``video_path``, ``similarities`` (``curr_time``, ``similarities`` of the proposals, ``processing_time`` in
seconds), ``detections`` (times at which the signal rose) and ``checked_detections`` (``time``, ``response``). The
signal of a step is the largest similarity of its proposals; a detection is a state. The policy ``surge`` is its rule
for one proposal. **Source**: Em-Garde (7d6922e), ``ovo_bench_eval_online.py`` and ``trigger_detection.py``.
"""

import math
from collections.abc import Iterator
from typing import Final

from stepscope.eval.data.json_fields import Fields, check_number
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.imports.system_output import (
    Result,
    ResultForm,
    SystemOutput,
    add_text,
    check_new_frame,
    file_name,
    find_by_names,
    read_frame,
    read_names,
    read_optional,
)

SIGNAL: Final = "similarity"


def _find_sample(result: Result, split: Split) -> Sample:
    return find_by_names([file_name(name) for name in read_names(result.fields, "id", "video_path")], split)


def _flatten(name: str, value: object, depth: int = 0) -> Iterator[float]:
    """Yield the numbers of a list that may hold lists of numbers."""
    if isinstance(value, list) and depth < 3:
        for number, one in enumerate(value):
            yield from _flatten(f"{name}[{number}]", one, depth + 1)
    else:
        yield check_number(name, value)


def _read(content: Fields, sample: Sample) -> SystemOutput:
    signals: dict[int, dict[str, float]] = {}
    costs_s: dict[int, float] = {}
    for step in content.read_objects("similarities"):
        frame = read_frame(step, "curr_time", sample)
        if frame < sample.num_frames - 1:  # the last step may be at the end of the video
            check_new_frame(step, "curr_time", frame, signals, sample)
        values = list(_flatten(f"{step.path_prefix}similarities", step.record.get("similarities")))
        signals[frame] = {SIGNAL: max(values, default=math.nan)}
        cost_s = read_optional(step, "processing_time")
        if cost_s >= 0:
            costs_s[frame] = cost_s
    texts: dict[int, str] = {}
    for reply in content.read_objects("checked_detections"):
        add_text(texts, read_frame(reply, "time", sample), reply.read_text("response", may_be_blank=True))
    times = content.record.get("detections")
    if not isinstance(times, list):
        raise content.error("detections", "must be a list of times")
    found = [read_frame(Fields(record={"detections": one}), "detections", sample) for one in times]
    states = dict.fromkeys(found, "detected")
    num_frames = max([*signals, *texts, *states], default=-1) + 1
    return SystemOutput(num_frames=num_frames, texts=texts, costs_s=costs_s, signals=signals, states=states)


FORM: Final = ResultForm(
    name="Em-Garde",
    missing="thresholds, states of the steps, cache lengths",
    matches=lambda fields: fields.has_list("similarities") and fields.has_list("checked_detections"),
    find_sample=_find_sample,
    read=_read,
    deciding=(SIGNAL,),
)
