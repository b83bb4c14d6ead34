"""Reads references of benchmarks over whole videos, as docs/data-formats.md describes them.

No form names a frame rate, so a video is sampled at ``FPS``, the default of a stream. **Source**: ``anno.json`` of
ProactiveVideoQA (arXiv 2507.09313); the data set facebook/wearable-ai (EgoProactive, arXiv 2606.04970), ``README.md``;
OmniPro (16d0cc3), ``metrics/online/scorer.py`` and ``evaluators/online_evaluator.py``;
qualcomm/qualcomm-interactive-cooking-dataset (8f33f07), ``README.md``; for QEVD varworkshop/ai_coach_fitness_2026
(281cd9e), ``data.py`` and ``utils.py``, which follow Qualcomm-AI-research/FitCoach,
``src/fitness_datasets/fitcoach.py``.
"""

import math
import re
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tokenize import TokenError
from typing import Any, Final

import numpy as np

from stepscope.engine.io.files import replace_surrogates
from stepscope.engine.records import frame_at
from stepscope.eval.data.json_fields import Fields, check_number, check_span, parse_clock
from stepscope.eval.data.samples import Sample, Turn, turn_order

FPS: Final = 2.0
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
    for interval in list_decisions(fields):
        decision, text = read_decision(interval, "answer")
        if decision == "interrupt":
            start_s, end_s = interval.read_number("start"), interval.read_number("end")
            end = end_s if end_s > start_s else None
            turns.append(Turn(time_s=start_s, role="assistant", text=text, end_s=end))
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
    decisions: list[Fields] = []
    spans: list[tuple[float, float, str]] = []
    for number, (interval, answer) in enumerate(zip(intervals, answers, strict=False)):
        place = f"{content.path_prefix}video_intervals[{number}]"
        start_s, end_s = check_span(place, interval, may_be_instant=True)
        record = {"start": start_s, "end": end_s, "answer": answer}
        decisions.append(Fields(record=record, path_prefix=f"{content.path_prefix}answers[{number}]."))
        spans.append((start_s, end_s, place))
    for (_, end_s, before), (start_s, _, place) in pairwise(sorted(spans)):
        if start_s < end_s - _ROUNDING_S:
            raise ValueError(f"{place} must not begin before {before} ends: each moment has one decision")
    return decisions


def read_omnipro(fields: Fields) -> Sample:
    """Read one sample: a reference at each trigger. Raises ``ValueError`` naming the field."""
    question = fields.read_text("question")
    asked_s = _read_clock(fields, "question_time") if fields.has("question_time") else 0.0
    turns = [Turn(time_s=asked_s, role="user", text=question)]
    for trigger in fields.read_objects("ground_truth"):
        name = "trigger_time_sec" if trigger.has("trigger_time_sec") else "trigger_time"
        texts = (trigger.record.get(part) for part in _TEXTS)
        text = next((str(value) for value in texts if isinstance(value, str | int) and str(value).strip()), question)
        turns.append(Turn(time_s=_read_clock(trigger, name), role="assistant", text=text))
    return _make_sample(fields, fields.read_text("id"), fields.read_text("video_path"), "duration", turns)


def read_cooking(fields: Fields) -> Sample:
    """Read one video: a reference at each message. Raises ``ValueError`` naming the field.

    The form has no length: the video ends with the frame of its last message.
    """
    texts, times = fields.record["output_texts"], fields.record["output_timestamps"]
    if not isinstance(texts, list) or not isinstance(times, list) or len(texts) != len(times) or not texts:
        raise fields.error("output_texts", "must have one text for each of output_timestamps, at least one")
    turns = []
    for number, (text, time) in enumerate(zip(texts, times, strict=True)):
        message = Fields(record={"text": text}, path_prefix=f"{fields.path_prefix}output_texts[{number}].")
        time_s = check_number(f"{fields.path_prefix}output_timestamps[{number}]", time, minimum=0)
        turns.append(Turn(time_s=time_s, role="assistant", text=message.read_text("text")))
    num_frames = frame_at(max(turn.time_s for turn in turns), FPS) + 1
    fields.check_length("output_timestamps", num_frames, FPS)
    goal = fields.read_text("activity_name", may_be_blank=True) if fields.has("activity_name") else ""
    return Sample(
        video_id=fields.read_text("video_id"),
        fps=FPS,
        num_frames=num_frames,
        goal=goal,
        turns=tuple(sorted(turns, key=turn_order)),
    )


def _read_clock(fields: Fields, name: str) -> float:
    """Return a time in seconds, given as a number, or as ``01:05`` or ``01:02:05``."""
    value = fields.record.get(name)
    if not isinstance(value, str):
        return fields.read_number(name, minimum=0)
    if not re.fullmatch(r"(\d{1,3}:){1,2}\d{1,2}(\.\d{1,6})?", value.strip()):
        raise fields.error(name, "must be seconds, or minutes and seconds such as 01:05")
    return parse_clock(value)


def _make_sample(fields: Fields, video_id: str, path: str, length: str, turns: list[Turn], *, goal: str = "") -> Sample:
    num_frames = math.ceil(fields.read_number(length, minimum=1 / FPS) * FPS - _ROUNDING)
    fields.check_length(length, num_frames, FPS)
    return Sample(
        video_id=video_id,
        video_path=Path(path),
        fps=FPS,
        num_frames=num_frames,
        goal=goal,
        turns=tuple(sorted(turns, key=turn_order)),
    )


def read_gold(fields: Fields) -> Sample:
    """Read one question with its answers. Raises ``ValueError`` naming the field."""
    questions = [
        Turn(time_s=turn.read_number("time", minimum=0), role="user", text=turn.read_text("content"))
        for turn in fields.read_objects("conversation")
        if turn.read_choice("role", ("user", "assistant", "system")) == "user"
    ]
    answers = [_read_answer(answer) for answer in fields.read_objects("answer")]
    return _make_sample(fields, read_question_id(fields), fields.read_text("video"), "duration", [*questions, *answers])


def format_gold(sample: Sample, video: str | None) -> dict[str, Any]:
    """Return the record of a sample that ``read_gold`` reads; ``video`` is the path to store.

    Raises ``ValueError`` for an assistant turn without a reply span, and for a sample without a file.
    """
    if video is None:
        raise ValueError(f"video {sample.video_id} names no file, which a gold answer needs; write a manifest")
    return {
        "video": video,
        "question_id": sample.video_id,
        "duration": sample.num_frames / FPS,
        "conversation": [
            {"role": "user", "content": turn.text, "time": turn.time_s} for turn in sample.turns if turn.role == "user"
        ],
        "answer": [_format_answer(turn, sample) for turn in sample.turns if turn.role == "assistant"],
    }


def _format_answer(turn: Turn, sample: Sample) -> dict[str, Any]:
    if turn.end_s is None:
        raise ValueError(
            f"video {sample.video_id}: the assistant turn {turn.text!r} at {turn.time_s:g} s has no reply span; give "
            "it one in the review, or write a manifest"
        )
    answer: dict[str, Any] = {"content": turn.text, "reply_timespan": [turn.time_s, turn.end_s]}
    if turn.related_end_s is not None:
        answer["related_timespan"] = [turn.related_start_s or 0.0, turn.related_end_s]
    return answer


def read_question_id(fields: Fields) -> str:
    """Return the id of a question, which may be a number. Raises ``ValueError`` for other values."""
    value = fields.record.get("question_id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return fields.read_text("question_id")


def _read_answer(fields: Fields) -> Turn:
    start_s, end_s = _read_timespan(fields, "reply_timespan")
    related = _read_timespan(fields, "related_timespan") if fields.has("related_timespan") else (None, None)
    return Turn(
        time_s=start_s,
        role="assistant",
        text=fields.read_text("content"),
        end_s=end_s,
        related_start_s=related[0] or None,
        related_end_s=related[1],
    )


def _read_timespan(fields: Fields, name: str) -> tuple[float, float]:
    return check_span(f"{fields.path_prefix}{name}", fields.record.get(name))


_NS: Final = 1_000_000_000
_CLOCK_AHEAD_S: Final = 28_800.0
"""``load_video_timestamps`` adds 8 hours to the times of the frames, and so do the results of its users."""
_FIRST_NS: Final = 10**17
"""Times below, of 1973, are no nanoseconds on the clock."""
_AROUND_NAME: Final = re.compile("First up are |Moving on to |!")


def read_qevd(fields: Fields, folder: Path) -> tuple[Sample, ...]:
    """Read one workout of a split in ``folder``: a sample for each exercise with feedback, up to the next transition.

    Raises ``ValueError`` naming the field.
    """
    if not fields.has("feedbacks"):
        raise fields.error("feedbacks", "must have a text for each frame; the competition split has no references")
    path = fields.read_text("long_range_video_file")
    times_ns = _read_times(fields, folder)
    feedbacks = _read_feedbacks(fields, times_ns)
    texts = [text for _, text in feedbacks]
    transitions = _read_transitions(fields, len(feedbacks))
    samples = []
    for number, (first, last) in enumerate(pairwise(transitions)):
        start_ns, end_ns = feedbacks[first][0], feedbacks[last][0]
        turns = [
            Turn(time_s=(time_ns - start_ns) / _NS, role="assistant", text=text)
            for time_ns, text in feedbacks[first + 1 : last]
        ]
        if turns:
            samples.append(
                Sample(
                    video_id=f"{PurePosixPath(path).stem}_{number}",
                    video_path=Path(path),
                    fps=FPS,
                    num_frames=math.ceil((end_ns - start_ns) * FPS / _NS),
                    goal=_AROUND_NAME.sub("", texts[first]),
                    turns=tuple(turns),
                    start_s=(start_ns - times_ns[0]) / _NS,
                    clock_s=start_ns / _NS + _CLOCK_AHEAD_S,
                )
            )
    if not samples:
        raise fields.error("is_transition", "must leave a feedback between two transitions")
    return tuple(samples)


def _read_times(fields: Fields, folder: Path) -> list[int]:
    """Return the times of the video's frames on the clock, in nanoseconds."""
    name = "video_timestamps"
    path = folder / fields.read_text(name)
    try:
        times = np.load(path, mmap_mode="r", allow_pickle=False) if path.is_file() else None  # a pipe would never end
    except (OSError, ValueError, SyntaxError, EOFError, TokenError) as error:  # of files and headers
        raise fields.error(name, "must name a .npy file that can be read") from error
    if times is None:
        raise fields.error(name, "must name a .npy file, relative to the split; there is none")
    if not isinstance(times, np.ndarray) or times.ndim != 1 or times.dtype.kind not in "iuf" or not times.size:
        raise fields.error(name, "must name a .npy file with the time of each frame")
    if not np.all((times >= _FIRST_NS) & (times < 2**63)):
        raise fields.error(name, "must have Unix times in nanoseconds")
    times_ns: list[int] = times.astype(np.int64).tolist()
    for frame, (before, after) in enumerate(pairwise(times_ns), start=1):
        if after < before:
            raise fields.error(
                name, f"must not fall back: frame {frame} is {(before - after) / _NS:g} s before the last"
            )
    fields.check_length(name, math.ceil((times_ns[-1] - times_ns[0]) * FPS / _NS), FPS)
    return times_ns


def _read_feedbacks(fields: Fields, times_ns: list[int]) -> list[tuple[int, str]]:
    """Return the time and text of each feedback: equal texts of frames in a row are one."""
    texts = fields.record.get("feedbacks")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise fields.error("feedbacks", "must be a list of texts, one for each frame")
    if len(texts) != len(times_ns):
        raise fields.error(
            "feedbacks", f"must have {len(times_ns)} texts, as video_timestamps has times, not {len(texts)}"
        )
    frames = zip(times_ns, ["", *texts], texts, strict=False)
    return [(time_ns, replace_surrogates(text)) for time_ns, before, text in frames if text.strip() and text != before]


def _read_transitions(fields: Fields, num_feedbacks: int) -> list[int]:
    """Return the numbers of the feedbacks that begin an exercise, or end the workout."""
    flags = fields.record.get("is_transition")
    if not isinstance(flags, list) or len(flags) != num_feedbacks or any(flag not in (0, 1) for flag in flags):
        raise fields.error(
            "is_transition", f"must be a list of true or false, one for each of {num_feedbacks} feedbacks"
        )
    transitions = [number for number, flag in enumerate(flags) if flag]
    if transitions[:1] != [0] or transitions[-1] != num_feedbacks - 1:
        raise fields.error("is_transition", "must be true for the first and the last feedback, the ends of the workout")
    return transitions
