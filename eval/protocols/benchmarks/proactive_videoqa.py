"""PAUC of ProactiveVideoQA; ``eval.metrics.replies.reply_spans`` has the area of a span.

**Source**: ProactiveVideoQA (arXiv 2507.09313), ``proactive_videoqa.py`` in VideoChat3 (189754e).
"""

import math
from typing import Final

from stepscope.eval.matching.grading import MAX_GRADE
from stepscope.eval.metrics.replies.reply_spans import GradedReply, span_area
from stepscope.eval.protocols.protocol import ROUNDING, Counted, Parameter, Protocol, Video, divide_by, measure_delay


def _count(video: Video, *, w: float) -> Counted:
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


PROTOCOLS: Final = (
    Protocol(
        name="pauc",
        windows="the reply span",
        matching="all replies inside a span, each graded with the earlier ones",
        judge="LLM, 1 to 3",
        aggregation="area under the grade over a span, delays x (1 - w), as % of the largest; mean over spans",
        source="ProactiveVideoQA (arXiv 2507.09313), proactive_videoqa.py in VideoChat3 (189754e)",
        main="pauc",
        count=_count,
        summarize=divide_by("spans", pauc="area"),
        parameters={"w": Parameter(default=0.5, maximum=1.0)},
        reads="replies in spans",
        grades_joined=True,
    ),
)
