"""COIN's step, next step and task as VideoLLM-online scores them: the nearest category of a generated text.

The published program asks a question at the start of a clip, and reads one answer at its end. In a run the last reply
from the start of a segment to its end is the answer.

**Source**: VideoLLM-online (arXiv 2406.11816), ``data/coin/benchmarks.py`` and ``coin.py`` (2be8ad4).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final

from stepscope.engine.dialogue import parse_update
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.matching.grading import MAX_GRADE, Reply
from stepscope.eval.metrics.segments import measure_edits
from stepscope.eval.protocols.protocol import Counted, Parameter, Protocol, Reads, Span, Video, divide_by, measure_delay

MAX_CHARS: Final = 2000
"""Only so many characters of a reply count, which bounds the time."""
_READS: Final[Mapping[str, Reads]] = {"coin-step": "steps", "coin-next": "next steps", "coin-task": "goals"}
_WORD_BORDER: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class NearestCategory:
    """Grades a text as right if, of all categories, the one of its reference has the smallest edit distance."""

    names: Sequence[str]

    @cached_property
    def categories(self) -> list[str]:
        """The categories as answers; of equally near ones the first counts."""
        return sorted({as_answer(name) for name in self.names})

    def __call__(self, replies: Sequence[Reply]) -> list[int]:
        """Return the grade of each reply."""
        texts = {reply.text[:MAX_CHARS] for reply in replies}
        nearest = {text: self.categories[measure_edits(text, self.categories).argmin()] for text in texts}
        return [MAX_GRADE * (nearest[reply.text[:MAX_CHARS]] == as_answer(reply.gold)) for reply in replies]


def as_answer(name: str) -> str:
    """Return a category as a published reference: ``PutOnHair`` and ``put on hair`` give ``Put on hair.``."""
    return f"{_WORD_BORDER.sub(' ', name).capitalize()}."


def list_categories(sample: Sample, reads: Reads) -> list[tuple[int, Turn]]:
    """Return the segments of a sample by time, each as a turn with its category as text.

    Beside it is the position of the segment's first turn. A segment of a step ends with its completion, or the video;
    that of a goal reaches from the first start to the last end.
    """
    updates = [(position, turn, parse_update(turn.text)) for position, turn in enumerate(sample.turns)]
    ends = {one.step_id: turn.time_s for _, turn, one in updates if one is not None and one.transition == "complete"}
    names = {step.id: step.name for step in sample.steps}
    segments = {
        one.step_id: (position, replace(turn, text=names[one.step_id], end_s=ends.get(one.step_id, _end_of(sample))))
        for position, turn, one in reversed(updates)
        if turn.role == "update" and one is not None and one.transition == "start"
    }
    found = sorted(segments.values(), key=lambda segment: segment[0])
    if reads == "goals":
        last_s = max((turn.end_s or 0.0 for _, turn in found), default=0.0)
        return [(place, replace(turn, text=sample.goal, end_s=last_s)) for place, turn in found[:1] if sample.goal]
    if reads == "next steps":
        return [(place, replace(turn, text=after.text)) for (place, turn), (_, after) in pairwise(found)]
    return found


def _end_of(sample: Sample) -> float:
    return (sample.num_frames - 1) / sample.fps


def _count_last(video: Video, *, wait_s: float) -> Counted:
    """Rate the last reply of each segment."""
    answers = list[tuple[float, ...]]()
    for number, span in enumerate(video.references):
        inside = Span(span.start_s, span.end_s + wait_s)
        timed = zip(video.times_s, video.accuracies, strict=True)
        answers.append(tuple(right[number] for time_s, right in timed if measure_delay(time_s, inside) == 0))
    credits = tuple(float(bool(found) and found[-1] >= 1) for found in answers)
    return Counted({"right": sum(credits), "answered": sum(map(bool, answers)), "segments": len(answers)}, credits)


PROTOCOLS: Final = tuple(
    Protocol(
        name=name,
        windows="the segment of a step, or of all, and wait_s after it",
        matching="the last reply inside, as the nearest category of the split: the step, the next step or the goal",
        judge="smallest edit distance",
        aggregation="shares of the segments with the right category, and with a reply",
        source="VideoLLM-online (arXiv 2406.11816), data/coin/benchmarks.py (2be8ad4)",
        main="accuracy",
        count=_count_last,
        summarize=divide_by("segments", accuracy="right", answered="answered"),
        parameters={"wait_s": Parameter(default=0.0)},
        reads=reads,
    )
    for name, reads in _READS.items()
)
