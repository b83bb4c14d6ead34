"""Rules of replies inside reply spans: PAUC of ProactiveVideoQA, and the times alone of LiveStar and OmniMMI.

``eval.metrics.replies.reply_spans`` has the area of a span, and scores similar to the latter in whole frames; here they
are in seconds.
"""

import math
from typing import Final

from stepscope.eval.matching.grading import MAX_GRADE
from stepscope.eval.metrics.replies.reply_spans import GradedReply, span_area
from stepscope.eval.protocols.protocol import ROUNDING, Counted, Parameter, Protocol, Video, divide_by, measure_delay


def _count_areas(video: Video, *, w: float) -> Counted:
    area = 0.0
    credits = [0.0] * len(video.references)
    for number, span in enumerate(video.references):
        if span.end_s > span.start_s:  # an instant has no area
            graded = [
                GradedReply(min(max(time_s, span.start_s), span.end_s), MAX_GRADE * accuracies[number])
                for time_s, accuracies in zip(video.times_s, video.accuracies, strict=True)
                if abs(measure_delay(time_s, span)) <= ROUNDING and not math.isnan(accuracies[number])
            ]
            area_of_span = span_area(graded, start_s=span.start_s, end_s=span.end_s, weight=w)
            area += area_of_span
            credits[number] = area_of_span if graded else 0.0  # silence has an area too
    num_spans = sum(span.end_s > span.start_s for span in video.references)
    return Counted({"area": 100 * area, "spans": num_spans}, tuple(credits))


def _count_livestar(video: Video) -> Counted:
    sums = dict.fromkeys(("covered", "redundancy", "time_diff_s", "spans"), 0.0)
    is_covered = []
    for span in video.references:
        if span.end_s == span.start_s:  # an instant has no inside
            is_covered.append(False)
            continue
        inside = [time_s for time_s in video.times_s if abs(measure_delay(time_s, span)) <= ROUNDING]
        is_covered.append(bool(inside))
        sums["covered"] += is_covered[-1]
        sums["redundancy"] += abs(1 - len(inside))
        sums["time_diff_s"] += (inside[0] if inside else span.end_s) - span.start_s
        sums["spans"] += 1
    return Counted(sums, tuple(map(float, is_covered)))


def _count_omnimmi(video: Video) -> Counted:
    sums = dict.fromkeys(("first_inside", "inside_share", "iou", "videos"), 0.0)
    if not any(span.end_s > span.start_s for span in video.references):
        return Counted(sums, (0.0,) * len(video.references))
    sums["videos"] = 1.0
    if video.times_s:
        (span,) = video.references
        is_inside = [abs(measure_delay(time_s, span)) <= ROUNDING for time_s in video.times_s]
        first_s, last_s = video.times_s[0], video.times_s[-1]
        union_s = max(span.end_s, last_s) - min(span.start_s, first_s)
        overlap_s = max(min(span.end_s, last_s) - max(span.start_s, first_s), 0.0)
        sums["first_inside"] = float(is_inside[0])
        sums["inside_share"] = sum(is_inside) / len(is_inside)
        sums["iou"] = overlap_s / union_s
    return Counted(sums, (sums["first_inside"],))


PROTOCOLS: Final = (
    Protocol(
        name="pauc",
        windows="the reply span",
        matching="all replies inside a span, each graded with the earlier ones",
        judge="LLM, 1 to 3",
        aggregation="area under the grade over a span, delays x (1 - w), as % of the largest; mean over spans",
        source="ProactiveVideoQA (arXiv 2507.09313), proactive_videoqa.py in VideoChat3 (189754e)",
        main="pauc",
        count=_count_areas,
        summarize=divide_by("spans", pauc="area"),
        parameters={"w": Parameter(default=0.5, maximum=1.0)},
        reads="replies in spans",
        grades_joined=True,
    ),
    Protocol(
        name="livestar",
        windows="the reply span",
        matching="all replies inside a span",
        judge="none",
        aggregation="means over spans: whether it has a reply, |1 - replies|, time to the first reply or to its end",
        source="LiveStar (0aa5b8e)",
        main="coverage",
        count=_count_livestar,
        summarize=divide_by("spans", coverage="covered", redundancy="redundancy", time_diff_s="time_diff_s"),
        reads="replies in spans",
    ),
    Protocol(
        name="omnimmi",
        windows="the reply span",
        matching="all replies and the only span",
        judge="none",
        aggregation=(
            "means over videos: first reply inside, share inside, IoU of the span and the time from first to last reply"
        ),
        source="evaluations/evaluate.py in OmniMMI (036d2ca)",
        main="first_inside",
        count=_count_omnimmi,
        summarize=divide_by("videos", first_inside="first_inside", inside_share="inside_share", iou="iou"),
        reads="replies in spans",
        has_one_reference=True,
    ),
)
