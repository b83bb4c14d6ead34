"""OmniPro, online mode: one reply to one reference, nearest pairs first; F1 of times alone, and with right contents.

**Source**: OmniPro (arXiv 2605.18577), ``metrics/online/scorer.py`` (16d0cc3). A split counts as one task.
"""

import math
from typing import Final

from stepscope.eval.protocols.protocol import ROUNDING, Counted, Parameter, Protocol, Sums, Video, score_hits


def _count(video: Video, *, tolerance_s: float, right_accuracy: float) -> Counted:
    pairs = sorted(
        (abs(time_s - span.start_s), reply, number)
        for reply, time_s in enumerate(video.times_s)
        for number, span in enumerate(video.references)
    )
    replies = set[int]()
    is_right: dict[int, bool] = {}  # of each matched reference
    for distance_s, reply, number in pairs:
        if distance_s <= tolerance_s + ROUNDING and reply not in replies and number not in is_right:
            replies.add(reply)
            is_right[number] = video.accuracies[reply][number] >= right_accuracy
    num_references = len(video.references)
    sums = {
        "matched": len(is_right),
        "hits": sum(is_right.values()),
        "replies": len(video.times_s),
        "references": num_references,
    }
    return Counted(sums, tuple(float(is_right.get(number, False)) for number in range(num_references)))


def _summarize(sums: Sums) -> dict[str, float]:
    content = sums["hits"] / sums["matched"] if sums["matched"] else math.nan
    time_f1 = score_hits({**sums, "hits": sums["matched"]})["f1"]
    return {**score_hits(sums), "time_f1": time_f1, "content_accuracy": content}


PROTOCOLS: Final = (
    Protocol(
        name="omnipro",
        windows="within tolerance_s of the start",
        matching="one to one, the nearest pair of a video first",
        judge="by task: none, rules, or LLM, 3 of 1 to 5",
        aggregation="precision over replies, recall over references; wrong texts count in time_f1 alone",
        source="OmniPro (arXiv 2605.18577), metrics/online/scorer.py (16d0cc3)",
        main="f1",
        count=_count,
        summarize=_summarize,
        parameters={"tolerance_s": Parameter(default=3.0), "right_accuracy": Parameter(default=0.5, maximum=1.0)},
    ),
)
