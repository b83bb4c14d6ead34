"""Qualcomm Interactive Cooking: IC-Acc of completed instructions, and F1 of mistakes, in the same window.

**Source**: arXiv 2511.21998, 5.1.
"""

from typing import Any, Final

from stepscope.eval.protocols.protocol import ROUNDING, Counted, Parameter, Protocol, Video, divide_by, score_hits


def _count(video: Video, *, tolerance_s: float, right_accuracy: float) -> Counted:
    left = set(range(len(video.times_s)))
    is_met = [False] * len(video.references)
    for number, span in enumerate(video.references):
        fits = (
            reply
            for reply in sorted(left)
            if abs(video.times_s[reply] - span.start_s) <= tolerance_s + ROUNDING
            and video.accuracies[reply][number] >= right_accuracy
        )
        found = next(fits, None)
        if found is not None:
            left.remove(found)
            is_met[number] = True
    sums = {"hits": sum(is_met), "replies": len(video.times_s), "references": len(is_met)}
    return Counted(sums, tuple(map(float, is_met)))


_SHARED: Final[dict[str, Any]] = {
    "windows": "within tolerance_s of the start",
    "matching": "by time; each reference takes the first right reply that is left",
    "source": "Qualcomm Interactive Cooking (arXiv 2511.21998), 5.1",
    "count": _count,
    "parameters": {"tolerance_s": Parameter(default=15.0), "right_accuracy": Parameter(default=1.0, maximum=1.0)},
}
PROTOCOLS: Final = (
    Protocol(
        name="interactive-cooking",
        judge="the right instruction; in a run the step of the update",
        aggregation="share of the instructions whose completion is recognised",
        main="ic_acc",
        summarize=divide_by("references", ic_acc="hits"),
        reads="completions",
        **_SHARED,
    ),
    Protocol(
        name="interactive-cooking-mistakes",
        judge="the right mistake",
        aggregation="precision over replies, recall over mistakes",
        main="f1",
        summarize=score_hits,
        reads="mistakes",
        **_SHARED,
    ),
)
