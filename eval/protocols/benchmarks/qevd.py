"""QEVD's temporal F-score (T-F): the nearest reply of each reference, and the nearest reference of each reply.

**Source**: the evaluation of FitCoach (QEVD, arXiv 2407.08101): ``tolerance`` 3 s, of which half is used.
"""

from collections.abc import Sequence
from typing import Final

from stepscope.eval.protocols.protocol import Counted, Parameter, Protocol, Video, score_hits


def _match(wanted_s: Sequence[float], found_s: Sequence[float], max_distance_s: float) -> list[bool]:
    """Return whether each time has its nearest found time in reach, in the same order; a taken one is not replaced."""
    is_matched = [False] * len(wanted_s)
    last = -1
    for number, time_s in enumerate(wanted_s if found_s else ()):
        distances_s = [abs(one - time_s) for one in found_s]
        nearest = distances_s.index(min(distances_s))
        if distances_s[nearest] < max_distance_s and nearest > last:
            is_matched[number] = True
            last = nearest
    return is_matched


def _count(video: Video, *, max_distance_s: float) -> Counted:
    starts_s = [span.start_s for span in video.references]
    is_met = _match(starts_s, video.times_s, max_distance_s)
    sums = {
        "hits": sum(is_met),
        "reply_hits": sum(_match(video.times_s, starts_s, max_distance_s)),
        "references": len(starts_s),
        "replies": len(video.times_s),
    }
    return Counted(sums, tuple(map(float, is_met)))


PROTOCOLS: Final = (
    Protocol(
        name="qevd-tf",
        windows="less than max_distance_s from the start",
        matching="recall: in order, the nearest reply of each reference, each once; precision: the reverse",
        judge="none",
        aggregation="precision over replies, recall over references",
        source="QEVD (arXiv 2407.08101), evaluation of FitCoach",
        main="f1",
        count=_count,
        summarize=score_hits,
        parameters={"max_distance_s": Parameter(default=1.5)},
    ),
)
