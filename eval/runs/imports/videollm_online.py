"""VideoLLM-online's ``demo.cli``.

``video_path``, ``frame_fps`` and ``conversation``, an object per frame with ``time`` and ``cost`` (seconds), two for a
frame at which a query was answered. ``content`` begins with ``(Video Time = 1.0s) Assistant:``, which is removed. The
program stops after 100 frames. The sample is the one with that video's file name, or with its stem as id. **Source**:
``demo/cli.py`` and ``demo/inference.py``.
"""

import re
from typing import Final

from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.samples import Sample
from stepscope.eval.runs.imports.proassist import check_rate
from stepscope.eval.runs.imports.system_output import ResultForm, SystemOutput, file_name, find_by_names, find_frame

_PREFIX: Final = re.compile(r"\(Video Time = [^()]*s\) ?Assistant: ?")


def _read(content: Fields, sample: Sample) -> SystemOutput:
    check_rate(content, "frame_fps", sample)
    texts: dict[int, str] = {}
    costs_s: dict[int, float] = {}
    for step in content.read_objects("conversation"):
        frame = find_frame(step.read_number("time", minimum=0), sample.fps)
        costs_s[frame] = step.read_number("cost", minimum=0)
        if step.has("role") and step.read_choice("role", ("user", "assistant")) == "assistant":
            text = _PREFIX.sub("", step.read_text("content"), count=1).strip()
            if frame in texts:
                raise step.error("time", "must differ from that of the answer before")
            if text:
                texts[frame] = text
    return SystemOutput(num_frames=max(costs_s, default=-1) + 1, texts=texts, costs_s=costs_s)


FORM: Final = ResultForm(
    name="VideoLLM-online",
    missing="probabilities, states of the steps, cache lengths",
    matches=lambda fields: fields.has("conversation") and not fields.has("answer"),  # gold answers of ProactiveVideoQA
    find_sample=lambda result, split: find_by_names([file_name(result.fields.read_text("video_path"))], split),
    read=_read,
)
