"""OVO-Timing's F1; ``eval.metrics.replies.response_timing`` has the matching.

**Source**: ``ovo_timing.py`` in VideoChat3 (189754e). A split counts as one task.
"""

from typing import Final

from stepscope.eval.metrics.replies.response_timing import OVO_CLUE_DELAY_S, OVO_TOLERANCE_S, match_ovo
from stepscope.eval.protocols.protocol import Counted, Parameter, Protocol, Sums, Video, compute_f1, divide_by


def _count(video: Video, *, tolerance_s: float, delay_s: float) -> Counted:
    num_references, num_replies = len(video.references), len(video.times_s)
    truth_s = [span.start_s + delay_s * (span.end_s > span.start_s) for span in video.references]
    is_hit = match_ovo(truth_s, video.times_s, tolerance_s=tolerance_s)
    sums = {
        "precision": sum(is_hit) / num_replies if num_replies else 0.0,
        "recall": sum(is_hit) / num_references if num_references else 0.0,
        "videos": bool(num_references),
    }
    return Counted(sums, tuple(map(float, is_hit)))


def _summarize(sums: Sums) -> dict[str, float]:
    means = divide_by("videos", precision="precision", recall="recall")(sums)
    return {**means, "f1": compute_f1(means["precision"], means["recall"])}


PROTOCOLS: Final = (
    Protocol(
        name="ovo-timing",
        windows="within tolerance_s of the true time: delay_s after the start of a span, or the instant",
        matching="by true time; each takes the first reply in reach that is left",
        judge="none",
        aggregation="mean precision and recall over videos, and their F1",
        source="ovo_timing.py in VideoChat3 (189754e)",
        main="f1",
        count=_count,
        summarize=_summarize,
        parameters={"tolerance_s": Parameter(default=OVO_TOLERANCE_S), "delay_s": Parameter(default=OVO_CLUE_DELAY_S)},
    ),
)
