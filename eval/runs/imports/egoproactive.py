"""EgoProactive: JSON lines, an object per video, with a decision per interval of about 8 s.

``video_path``, ``video_intervals`` (start and end in seconds) and ``answers``, each ``$silent$`` or ``$interrupt$`` and
the words. A message is at the start of its interval, and the decision is the state of the assistant in all frames of
the interval. Lists of unequal length are read up to the shorter one, as the published scorer does. **Source**: the
data set facebook/wearable-ai (EgoProactive, arXiv 2606.04970), ``README.md``.
"""

import re
from typing import Final

from stepscope.eval.data.json_fields import Fields, check_number
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.imports.system_output import (
    Result,
    ResultForm,
    SystemOutput,
    add_text,
    end_frame,
    file_name,
    find_by_names,
    read_frame,
)

_DECISION: Final = re.compile(r"\s*\$(interrupt|silent)\$", re.IGNORECASE)


def read_decision(fields: Fields, name: str) -> tuple[str, str]:
    """Return the decision of an answer, ``interrupt`` or ``silent``, and its words."""
    answer = fields.read_text(name)
    found = _DECISION.match(answer)
    if found is None:
        raise fields.error(name, "must begin with $interrupt$ or $silent$")
    return found[1].lower(), answer[found.end() :].strip()


def list_decisions(content: Fields) -> list[Fields]:
    """Return each interval with its answer, as ``start``, ``end`` and ``answer``."""
    intervals, answers = content.record.get("video_intervals"), content.record.get("answers")
    if not isinstance(intervals, list) or not isinstance(answers, list):
        raise content.error("video_intervals", "and answers must be lists")
    found: list[Fields] = []
    for number, (interval, answer) in enumerate(zip(intervals, answers, strict=False)):
        place = f"{content.path_prefix}video_intervals[{number}]"
        if not isinstance(interval, list) or len(interval) != 2:
            raise ValueError(f"{place} must be a list of start and end in seconds")
        start_s, end_s = (check_number(place, value, minimum=0) for value in interval)
        if end_s < start_s:
            raise ValueError(f"{place} must end after its start")
        record = {"start": start_s, "end": end_s, "answer": answer}
        found.append(Fields(record=record, path_prefix=f"{content.path_prefix}answers[{number}]."))
    return found


def _find_sample(result: Result, split: Split) -> Sample:
    return find_by_names([file_name(result.fields.read_text("video_path"))], split)


def _read(content: Fields, sample: Sample) -> SystemOutput:
    texts: dict[int, str] = {}
    states: dict[int, str] = {}
    for one in list_decisions(content):
        decision, words = read_decision(one, "answer")
        frame, end = read_frame(one, "start", sample), end_frame(one.read_number("end"), sample)
        if decision == "interrupt":
            add_text(texts, frame, words)
        states |= dict.fromkeys(range(frame, max(end, frame + 1)), decision)
    return SystemOutput(num_frames=max([*states, *texts], default=-1) + 1, texts=texts, states=states)


FORM: Final = ResultForm(
    name="EgoProactive",
    missing="probabilities, states of the steps, latencies, cache lengths",
    matches=lambda fields: fields.has_list("answers") and fields.has_list("video_intervals"),
    find_sample=_find_sample,
    read=_read,
)
