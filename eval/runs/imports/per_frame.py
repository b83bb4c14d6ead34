"""Forms with an entry per frame, step or interval; docs/result-files.md describes them.

**Source**: ProAssist, ``StreamInferenceRunner.run_inference_on_video``; VideoLLM-online, ``demo/cli.py`` and
``demo/inference.py``; MMDuet (33be138), ``test/inference.py``; MMDuet2, ``proactive_eval/inference.py``; Em-Garde
(7d6922e), ``ovo_bench_eval_online.py`` and ``trigger_detection.py``; the data set facebook/wearable-ai (EgoProactive,
arXiv 2606.04970), ``README.md``.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from stepscope.eval.data.benchmarks import is_egoproactive, list_decisions, read_decision, read_question_id
from stepscope.eval.data.json_fields import Fields, check_number
from stepscope.eval.data.samples import Sample, Split
from stepscope.eval.runs.imports.system_output import (
    NO_TEXT,
    Result,
    ResultForm,
    SystemOutput,
    check_fit,
    check_new_frame,
    end_frame,
    find_by,
    find_by_names,
    place_entry,
    read_frame,
    read_optional,
)

_PREFIX: Final = re.compile(r"\(Video Time = [^()]*s\) ?Assistant: ?")
_NO_REPLY: Final = "NO REPLY"
_MAX_POLL_S: Final = 4.0
"""Two frames of MMDuet2, each of at most two seconds."""
_SCORES: Final = ("informative_score", "relevance_score")
_SIMILARITY: Final = "similarity"


def _find_clip(result: Result, split: Split) -> Sample:
    metadata = result.fields.read_object("metadata")
    name = metadata.read_text("video_uid")
    fits = [sample for sample in split.samples if _is_of(sample, name)]
    if len(fits) > 1:
        place = metadata.read_index("sample_idx")
        at_place = split.entries[place : place + 1]
        fits = [sample for sample in fits if sample in at_place]
    return check_fit(fits, [name], split)


def _is_of(sample: Sample, name: str) -> bool:
    has_id = sample.video_id == name or sample.video_id.startswith(f"{name}_")
    return has_id or (sample.video_path is not None and sample.video_path.stem == name)


def _read_proassist(content: Fields, sample: Sample) -> SystemOutput:
    """Read a clip; ``timestamp_in_stream`` is not used: it is the end of a frame."""
    _check_rate(content.read_object("metadata"), "fps", sample)
    frames = content.read_objects("predictions")
    places = ("frame_idx_in_original_video", "frame_idx_in_stream")
    place = next((name for name in places if frames and all(frame.has(name) for frame in frames)), None)
    numbers = range(len(frames)) if place is None else [frame.read_index(place) for frame in frames]
    first = frames[0].read_index(places[1]) if frames and frames[0].has(places[1]) else 0
    output = SystemOutput(num_entries=len(frames))
    for frame, number in zip(frames, numbers, strict=True):
        name, index = place or "gen", first + number - numbers[0]
        if index < output.at_least:
            raise frame.error(name, "must be larger than that of the frame before")
        place_entry(frame, name, index / sample.fps, sample)
        output.at_least = index + 1
        text = frame.record.get("gen")
        if not isinstance(text, str):
            raise frame.error("gen", "must be text")
        if text.strip() != ".":
            output.add_text(index, text)
    return output


def _check_rate(fields: Fields, name: str, sample: Sample) -> None:
    fps = fields.read_number(name, minimum=0.001, maximum=1000)
    if not math.isclose(fps, sample.fps):
        raise fields.error(name, f"must be the rate of the split, {sample.fps:g}")


def _read_videollm_online(content: Fields, sample: Sample) -> SystemOutput:
    _check_rate(content, "frame_fps", sample)
    output = SystemOutput()
    for step in content.read_objects("conversation"):
        frame = read_frame(step, "time", sample)
        output.costs_s[frame] = step.read_number("cost", minimum=0)
        if step.has("role") and step.read_choice("role", ("user", "assistant")) == "assistant":
            if frame in output.texts:
                raise step.error("time", "must differ from that of the answer before")
            output.add_text(frame, _PREFIX.sub("", step.read_text("content"), count=1))
    return output


def _find_question(result: Result, split: Split) -> Sample:
    names = [read_question_id(result.fields)]
    return find_by_names([*names, *([result.fields.read_text("video")] if result.fields.has("video") else [])], split)


def _read_predictions(content: Fields, sample: Sample) -> SystemOutput:
    output = SystemOutput(at_least=sample.num_frames)
    _add_responses(output, content, sample)
    return output


def _read_mmduet(content: Fields, sample: Sample) -> SystemOutput:
    output = SystemOutput()
    _add_responses(output, content, sample)
    for entry in content.read_objects("debug_data"):
        frame = read_frame(entry, "time", sample)
        check_new_frame(entry, "time", frame, output.signals, sample)
        output.signals[frame] = {name: read_optional(entry, name) for name in _SCORES}
    return output


def _add_responses(output: SystemOutput, content: Fields, sample: Sample) -> None:
    turns = content.read_objects("model_response_list")
    replies = [turn for turn in turns if not turn.has("role") or turn.read_text("role") == "assistant"]
    poll_s = _find_poll(replies)
    for response in replies:
        text = response.read_text("content", may_be_blank=True)
        if text.strip().rstrip(".").upper() != _NO_REPLY:
            output.add_reply(response, "time", text, sample, poll_s=poll_s)


def _find_poll(replies: Sequence[Fields]) -> float:
    """Return the longest possible time between two polls, at most ``_MAX_POLL_S``: all times are multiples of it."""
    times = sorted({0.0, *(reply.read_number("time", minimum=0) for reply in replies)})
    return min([_MAX_POLL_S, *(later - earlier for earlier, later in pairwise(times))])


def _read_em_garde(content: Fields, sample: Sample) -> SystemOutput:
    output = SystemOutput()
    for step in content.read_objects("similarities"):
        frame = read_frame(step, "curr_time", sample)
        check_new_frame(step, "curr_time", frame, output.signals, sample)
        values = list(_flatten(f"{step.path_prefix}similarities", step.record.get("similarities")))
        output.signals[frame] = {_SIMILARITY: max(values, default=math.nan)}
        cost_s = read_optional(step, "processing_time")
        if cost_s >= 0:
            output.costs_s[frame] = cost_s
    replies = content.read_objects("checked_detections") if content.has("checked_detections") else ()
    for reply in replies:
        output.add_reply(reply, "time", reply.read_text("response", may_be_blank=True), sample)
    times = content.record["detections"]
    assert isinstance(times, list)
    frames = [read_frame(Fields(record={"detections": time_s}), "detections", sample) for time_s in times]
    output.states |= dict.fromkeys(frames, "detected")
    if frames and not replies:
        output.warn(
            "its detections count as replies without a text; for their texts run Em-Garde with --should-respond"
        )
        for frame in frames:
            output.add_text(frame, NO_TEXT)
    return output


def _flatten(name: str, value: object, depth: int = 0) -> Iterator[float]:
    """Yield the numbers of a list that may hold lists of numbers."""
    if isinstance(value, list) and depth < 3:
        for number, one in enumerate(value):
            yield from _flatten(f"{name}[{number}]", one, depth + 1)
    else:
        yield check_number(name, value)


def _read_egoproactive(content: Fields, sample: Sample) -> SystemOutput:
    output = SystemOutput()
    for one in list_decisions(content):
        decision, words = read_decision(one, "answer")
        frame, end = read_frame(one, "start", sample), end_frame(one.read_number("end"), sample)
        if decision == "interrupt":
            output.add_text(frame, words)
        output.states |= dict.fromkeys(range(frame, max(end, frame + 1)), decision)
    return output


PROASSIST: Final = ResultForm(
    name="ProAssist",
    matches=lambda fields: fields.has("predictions") and fields.has("metadata"),
    find_sample=_find_clip,
    read=_read_proassist,
)
VIDEOLLM_ONLINE: Final = ResultForm(
    name="VideoLLM-online",
    missing="probabilities, states of the steps, cache lengths",
    matches=lambda fields: fields.has("conversation") and not fields.has("answer"),  # gold answers of ProactiveVideoQA
    find_sample=find_by("video_path", is_path=True),
    read=_read_videollm_online,
)
MMDUET: Final = ResultForm(
    name="MMDuet",
    missing="thresholds, updates and states of the steps, latencies, cache lengths",
    matches=lambda fields: fields.has_list("model_response_list") and fields.has_list("debug_data"),
    find_sample=_find_question,
    read=_read_mmduet,
    deciding=_SCORES,
)
PREDICTIONS: Final = ResultForm(
    name="ProactiveVideoQA",
    missing="probabilities, states of the steps, latencies, cache lengths, the last frame that was run",
    matches=lambda fields: fields.has_list("model_response_list"),
    find_sample=_find_question,
    read=_read_predictions,
)
EM_GARDE: Final = ResultForm(
    name="Em-Garde",
    missing="thresholds, states of the steps, cache lengths",
    matches=lambda fields: fields.has_list("similarities") and fields.has_list("detections"),
    find_sample=find_by("id", "video_path", is_path=True),
    read=_read_em_garde,
    deciding=(_SIMILARITY,),
)
EGOPROACTIVE: Final = ResultForm(
    name="EgoProactive",
    matches=is_egoproactive,
    find_sample=find_by("video_path", is_path=True),
    read=_read_egoproactive,
)
