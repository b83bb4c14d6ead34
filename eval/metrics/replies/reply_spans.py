"""Replies against reply spans: PAUC, coverage, redundancy, delay, overlap in time and an F1 of grades.

Only reference turns with a reply span count; without any, all scores are nan. A span has the frames from that of its
start to that of its end, both included, as a turn has a frame: at 2 frames/s, a span from 4.3 to 5.1 s has the frames 8
to 10, so it counts from 4 to 5 s. PAUC alone takes the published convention: the time of a reply's frame against the
times of the span, so that there the reply in frame 8 is before the span.

**Source**: PAUC is that of ProactiveVideoQA (arXiv 2507.09313), ``proactive_videoqa.py`` in VideoChat3 (189754e). The
others are those of LiveStar (0aa5b8e) and OmniMMI (036d2ca). ``span_F1`` has the form of ESTP-F1 (arXiv 2510.14560),
whose sum also rates how early a reply is: the two are not comparable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from stepscope.engine.records import FrameOutput, frame_at
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.matching.grading import MAX_GRADE, Grade, Reply
from stepscope.eval.matching.turns import delay_from_span, span_frames
from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.matched_video import MatchedVideo, Measure
from stepscope.eval.metrics.replies.turn_taking import spoken_texts

PAUC_WEIGHTS: Final = (0.0, 0.5, 1.0)
"""Weights w: 1 ignores the time of a reply inside its span, 0 counts it in full."""
START_GRADE: Final = 0.5
"""Grade of a span before its first reply."""
_ROUNDING: Final = 1e-9


class TimedReply(NamedTuple):
    """A response of the assistant."""

    time_s: float
    text: str


class GradedReply(NamedTuple):
    """The grade of all replies of a span up to a time."""

    time_s: float
    grade: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCounts(Counts):
    """Reply spans of one or many videos."""

    num_spans: int = 0
    num_covered: int = 0
    redundancy_sum: float = 0.0
    """Sum of ``|1 - replies|`` over the spans."""
    first_delay_sum_s: float = 0.0
    """Sum of the delay of the first reply; for a span without replies that of its last frame."""
    iou_sum: float = 0.0
    num_replies: int = 0
    """Replies in videos with spans."""
    num_inside: int = 0
    grade_sum: float = 0.0
    """Sum over the spans of the last grade, in [0, 1]."""
    pauc_sums: tuple[float, ...] = (0.0,) * len(PAUC_WEIGHTS)
    silent_pauc_sum: float = 0.0


def span_area(graded: Iterable[GradedReply], *, start_s: float, end_s: float, weight: float) -> float:
    """Return the PAUC of one span, in [0, 1].

    The grade is a step function from ``START_GRADE``. A reply at ``t`` steps at ``(t - start_s) * (1 - weight)``; the
    last grade is held to the end. For grade 2 in the middle of a span, weight 0 gives (0.5 * 0.5 + 0.5 * 2) / 2 =
    0.625, and weight 1 gives 1. Without replies the area is 0.25.
    """
    length_s = end_s - start_s
    area, before_s, grade = 0.0, 0.0, START_GRADE
    for reply in sorted(graded, key=lambda one: one.time_s):
        at_s = (reply.time_s - start_s) * (1 - weight)
        area += (at_s - before_s) * grade
        before_s, grade = at_s, reply.grade
    return (area + (length_s - before_s) * grade) / (MAX_GRADE * length_s)


def grade_span(replies: Sequence[TimedReply], turn: Turn, *, question: str, grade: Grade) -> list[GradedReply]:
    """Grade the replies inside a span: each with all earlier ones, joined, without exact repeats.

    After the end of the evidence, a grade below the last one before it is dropped.
    """
    joined: list[str] = []
    times_s, items = [], []
    for reply in replies:
        if reply.text not in joined:
            joined.append(reply.text)
            times_s.append(reply.time_s)
            items.append(Reply(question=question, gold=turn.text, text=" ".join(joined)))
    graded = [GradedReply(time_s, float(one)) for time_s, one in zip(times_s, grade(items), strict=True)]
    if turn.related_end_s is None:
        return graded
    inside = [one for one in graded if one.time_s <= turn.related_end_s + _ROUNDING]
    least = inside[-1].grade if inside else 0.0
    return inside + [one for one in graded[len(inside) :] if one.grade >= least]


def count_spans(sample: Sample, replies: Sequence[TimedReply], *, grade: Grade) -> SpanCounts:
    """Count the reply spans of one video; ``replies`` are by time."""
    spans = list_span_turns(sample)
    if not spans:
        return SpanCounts()
    question, fps = find_question(sample), sample.fps
    total, inside = SpanCounts(num_replies=len(replies)), set[TimedReply]()
    nearest = _assign_to_spans(replies, spans, fps=fps)
    for number, turn in enumerate(spans):
        found = _find_inside(replies, turn, fps=fps)
        inside |= set(found)
        graded = grade_span(found, turn, question=question, grade=grade)
        in_time = [reply for reply in found if reply.time_s >= turn.time_s - _ROUNDING]
        published = graded if in_time == found else grade_span(in_time, turn, question=question, grade=grade)
        total += (
            _count_replies(turn, found, [reply for reply, one in nearest if one == number], fps=fps)
            + SpanCounts(grade_sum=graded[-1].grade / MAX_GRADE if graded else 0.0)
            + _count_areas(turn, published)
        )
    return total + SpanCounts(num_inside=len(inside))


def grade_responses(sample: Sample, outputs: Sequence[FrameOutput], *, grade: Grade) -> dict[int, int]:
    """Return the grade after each response inside a reply span, by frame: that of all replies of the span so far.

    An exact repeat has none, since it is not graded again. In several spans, that of the last one counts.
    """
    replies, question = list_replies(sample, outputs), find_question(sample)
    found: dict[int, int] = {}
    for turn in list_span_turns(sample):
        whole = replace(turn, related_end_s=None)  # a grade that PAUC drops after the evidence is shown, too
        graded = grade_span(_find_inside(replies, turn, fps=sample.fps), whole, question=question, grade=grade)
        found.update({frame_at(one.time_s, sample.fps): int(one.grade) for one in graded})
    return found


def list_replies(sample: Sample, outputs: Sequence[FrameOutput]) -> list[TimedReply]:
    """Return the responses by time, each at the time of its frame."""
    texts = spoken_texts(outputs)
    return [TimedReply(frame / sample.fps, texts[frame]) for frame in sorted(texts)]


def list_span_turns(sample: Sample) -> list[Turn]:
    """Return the reference turns that have a reply span."""
    return [turn for turn in sample.turns if turn.role == "assistant" and turn.end_s is not None]


def find_question(sample: Sample) -> str:
    """Return the user's first words; empty without any."""
    return next((turn.text for turn in sample.turns if turn.role == "user"), "")


def _find_inside(replies: Sequence[TimedReply], turn: Turn, *, fps: float) -> list[TimedReply]:
    return [reply for reply in replies if delay_from_span(frame_at(reply.time_s, fps), turn, fps=fps) == 0]


def _count_replies(turn: Turn, found: Sequence[TimedReply], nearest: Sequence[TimedReply], *, fps: float) -> SpanCounts:
    """Count the replies inside a span, and those nearest to it, in its frames."""
    start, end = span_frames(turn, fps=fps)
    first = frame_at(found[0].time_s, fps) if found else end
    return SpanCounts(
        num_spans=1,
        num_covered=int(bool(found)),
        redundancy_sum=abs(1 - len(found)),
        first_delay_sum_s=(first - start) / fps,
        iou_sum=_overlap(start, end, [frame_at(reply.time_s, fps) for reply in nearest]),
    )


def _count_areas(turn: Turn, graded: Sequence[GradedReply]) -> SpanCounts:
    """Count the areas of PAUC, at the published times."""
    start_s, end_s = turn.time_s, turn.time_s if turn.end_s is None else turn.end_s
    return SpanCounts(
        pauc_sums=tuple(span_area(graded, start_s=start_s, end_s=end_s, weight=weight) for weight in PAUC_WEIGHTS),
        silent_pauc_sum=span_area((), start_s=start_s, end_s=end_s, weight=0.0),
    )


def _assign_to_spans(
    replies: Sequence[TimedReply], spans: Sequence[Turn], *, fps: float
) -> list[tuple[TimedReply, int]]:
    """Return each reply with the index of the nearest span, the first one among equals."""

    def find_nearest(frame: int) -> int:
        return min(range(len(spans)), key=lambda number: abs(delay_from_span(frame, spans[number], fps=fps)))

    return [(reply, find_nearest(frame_at(reply.time_s, fps))) for reply in replies]


def _overlap(start: int, end: int, frames: Sequence[int]) -> float:
    """Return the IoU of a span and the interval from the first to the last of some frames; 0 without frames.

    Both are lengths of time, so that a single frame has length 0; a span of one frame has IoU 1 with that frame alone.
    """
    if not frames:
        return 0.0
    first, last = frames[0], frames[-1]
    if start == end == first == last:
        return 1.0
    return max(min(end, last) - max(start, first), 0) / (max(end, last) - min(start, first))


def _count(video: MatchedVideo) -> SpanCounts:
    return count_spans(video.sample, list_replies(video.sample, video.outputs), grade=video.grade)


def _summarize(counts: SpanCounts) -> dict[str, float]:
    num_spans, num_outside = counts.num_spans, counts.num_replies - counts.num_inside
    errors = num_outside + num_spans - counts.num_covered
    # Without a right reply it is 0, also if every reply is inside a span, where wrong replies are no errors.
    f1 = ratio(2 * counts.grade_sum, 2 * counts.grade_sum + errors) if counts.grade_sum else ratio(0, num_spans)
    pauc = {
        f"PAUC_w{weight:g}": 100 * ratio(area, num_spans)
        for weight, area in zip(PAUC_WEIGHTS, counts.pauc_sums, strict=True)
    }
    return {
        **pauc,
        "PAUC_silent": 100 * ratio(counts.silent_pauc_sum, num_spans),
        "span_coverage": ratio(counts.num_covered, num_spans),
        "span_redundancy": ratio(counts.redundancy_sum, num_spans),
        "span_first_reply_delay_s": ratio(counts.first_delay_sum_s, num_spans),
        "span_iou": ratio(counts.iou_sum, num_spans),
        "span_replies_inside": ratio(counts.num_inside, counts.num_replies),
        "span_F1": f1,
        "num_spans": float(num_spans),
    }


MEASURES = (Measure(name="spans", kind=SpanCounts, count=_count, summarize=_summarize),)
