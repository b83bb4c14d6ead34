"""EgoProactive: JSON lines, an object per video, with a decision per interval of about 8 s.

``video_path``, ``video_intervals`` (start and end in seconds) and ``answers``, each ``$silent$`` or ``$interrupt$`` and
the words. A message is at the start of its interval, and the decision is the state of the assistant in all frames of
the interval. Lists of unequal length are read up to the shorter one, as the published scorer does. **Source**: the
data set facebook/wearable-ai (EgoProactive, arXiv 2606.04970), ``README.md``.
"""

from typing import Final

from stepscope.eval.data.benchmarks import is_egoproactive, list_decisions, read_decision
from stepscope.eval.data.json_fields import Fields
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
    matches=is_egoproactive,
    find_sample=_find_sample,
    read=_read,
)
