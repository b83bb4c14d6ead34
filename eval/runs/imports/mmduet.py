"""MMDuet and the predictions of ProactiveVideoQA: JSON lines, an object per question.

``question_id``, ``model_response_list`` (``time``, ``content``, ``role``); MMDuet adds ``video_duration`` and
``debug_data`` (``time``, ``informative_score``, ``relevance_score``), an object per frame. The sample is the one with
the question's id, or with the file name ``video``. The frames of MMDuet end with ``debug_data``. Predictions without
it do not name their frames: those of the sample are taken, silent where no response is. MMDuet rounds the times of its
frames to milliseconds. MMDuet2's ``time`` is the end of the frames that were shown, so that the last one may lie after
the end of the video by less than a poll, and its ``NO REPLY`` is silence. **Source**: MMDuet (33be138),
``test/inference.py``; MMDuet2, ``proactive_eval/inference.py``.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from stepscope.eval.data.json_fields import Fields
from stepscope.eval.data.proactive_videoqa import read_question_id
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.imports.system_output import (
    Result,
    ResultForm,
    SystemOutput,
    add_text,
    check_new_frame,
    find_by_names,
    find_frame,
    read_frame,
    read_optional,
)

_SILENCE: Final = "NO REPLY"
_MAX_POLL_S: Final = 4.0
"""Two frames, each of at most two seconds."""
_SCORES: Final = ("informative_score", "relevance_score")


def _find_sample(result: Result, split: Split) -> Sample:
    names = [read_question_id(result.fields)]
    return find_by_names([*names, *([result.fields.read_text("video")] if result.fields.has("video") else [])], split)


def _read_texts(content: Fields, sample: Sample) -> dict[int, str]:
    texts: dict[int, str] = {}
    turns = content.read_objects("model_response_list")
    replies = [turn for turn in turns if not turn.has("role") or turn.read_text("role") == "assistant"]
    late_s = _find_poll(replies)
    for response in replies:
        text = response.read_text("content", may_be_blank=True)
        if text.strip().rstrip(".").upper() != _SILENCE:
            add_text(texts, read_frame(response, "time", sample, late_s=late_s), text)
    return texts


def _find_poll(replies: Sequence[Fields]) -> float:
    """Return the longest possible time between two polls, at most ``_MAX_POLL_S``: all times are multiples of it."""
    times = sorted({0.0, *(reply.read_number("time", minimum=0) for reply in replies)})
    return min([_MAX_POLL_S, *(later - earlier for earlier, later in pairwise(times))])


def _read_mmduet(content: Fields, sample: Sample) -> SystemOutput:
    texts = _read_texts(content, sample)
    signals: dict[int, dict[str, float]] = {}
    for entry in content.read_objects("debug_data"):
        frame = find_frame(entry.read_number("time", minimum=0), sample.fps)
        check_new_frame(entry, "time", frame, signals, sample)
        signals[frame] = {name: read_optional(entry, name) for name in _SCORES}
    return SystemOutput(num_frames=max([*signals, *texts], default=-1) + 1, texts=texts, signals=signals)


def _read_predictions(content: Fields, sample: Sample) -> SystemOutput:
    texts = _read_texts(content, sample)
    return SystemOutput(num_frames=max([sample.num_frames - 1, *texts]) + 1, texts=texts)


MMDUET: Final = ResultForm(
    name="MMDuet",
    missing="thresholds, updates and states of the steps, latencies, cache lengths",
    matches=lambda fields: fields.has_list("model_response_list") and fields.has_list("debug_data"),
    find_sample=_find_sample,
    read=_read_mmduet,
    deciding=_SCORES,
)
PREDICTIONS: Final = ResultForm(
    name="ProactiveVideoQA",
    missing="probabilities, states of the steps, latencies, cache lengths, the last frame that was run",
    matches=lambda fields: fields.has_list("model_response_list"),
    find_sample=_find_sample,
    read=_read_predictions,
)
