"""Reads and writes gold answers of ProactiveVideoQA, as docs/data-formats.md describes them.

The form names no frame rate, so a video is sampled at ``FPS``, the default of a stream. **Source**: ``anno.json`` of
ProactiveVideoQA (arXiv 2507.09313).
"""

import math
from pathlib import Path
from typing import Any, Final

from stepscope.eval.data.json_fields import Fields, check_number
from stepscope.eval.data.samples import Sample, Turn, turn_order

FPS: Final = 2.0
"""Sampled frames per second."""
_ROUNDING = 1e-6  # of a frame


def is_gold(fields: Fields) -> bool:
    """Whether a record has the form of a gold answer."""
    return fields.has("question_id") and fields.has_list("answer")


def read_gold(fields: Fields) -> Sample:
    """Read one question with its answers. Raises ``ValueError`` naming the field."""
    duration_s = fields.read_number("duration", minimum=1 / FPS)
    num_frames = math.ceil(duration_s * FPS - _ROUNDING)
    fields.check_length("duration", num_frames, FPS)
    questions = [
        Turn(time_s=turn.read_number("time", minimum=0), role="user", text=turn.read_text("content"))
        for turn in fields.read_objects("conversation")
        if turn.read_choice("role", ("user", "assistant", "system")) == "user"
    ]
    answers = [_read_answer(answer) for answer in fields.read_objects("answer")]
    return Sample(
        video_id=read_question_id(fields),
        video_path=Path(fields.read_text("video")),
        fps=FPS,
        num_frames=num_frames,
        goal="",
        steps=(),
        turns=tuple(sorted([*questions, *answers], key=turn_order)),
        initial_state={},
    )


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
    value = fields.record.get(name)
    if not isinstance(value, list) or len(value) != 2:
        raise fields.error(name, "must be a list of start and end in seconds")
    start_s, end_s = (check_number(f"{fields.path_prefix}{name}", number, minimum=0) for number in value)
    if end_s <= start_s:
        raise fields.error(name, "must end after its start")
    return start_s, end_s
