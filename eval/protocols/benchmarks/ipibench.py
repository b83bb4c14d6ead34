"""IPIBench: a sample is right or wrong as a whole, by the times of its replies, within 1 s.

**Source**: IPIBench, ``Evaluate/`` (31bdb5a): ``PM`` and ``IRP/RTP.py`` for single replies. The rule of repeated
replies is known from a summary only: ``PM/RP.py`` rates one time, ``PTM/MTM.py`` two.
"""

from typing import Any, Final

from stepscope.eval.protocols.protocol import ROUNDING, Counted, Parameter, Protocol, Video, divide_by


def _count_first(video: Video, *, tolerance_s: float, right_accuracy: float) -> Counted:
    """Rate the first reply alone: the published programs stop there."""
    return _rate(video, min(1, len(video.times_s)), tolerance_s, right_accuracy)


def _count_repeated(video: Video, *, tolerance_s: float, right_accuracy: float) -> Counted:
    return _rate(video, len(video.times_s), tolerance_s, right_accuracy)


def _rate(video: Video, num_replies: int, tolerance_s: float, right_accuracy: float) -> Counted:
    """Rate the first replies, which must be as many as the references, each in time, in order."""
    is_timed = num_replies == len(video.references) and all(
        abs(time_s - span.start_s) <= tolerance_s + ROUNDING
        for time_s, span in zip(video.times_s, video.references, strict=False)
    )
    is_right = is_timed and all(
        accuracies[number] >= right_accuracy for number, accuracies in enumerate(video.accuracies[:num_replies])
    )
    is_sample = bool(video.references)
    sums = {"timed": is_timed and is_sample, "right": is_right and is_sample, "samples": is_sample}
    return Counted(sums, (float(is_right),) * len(video.references))


summarize_samples: Final = divide_by("samples", accuracy="right", time_accuracy="timed")
"""Return the shares of the samples that are right, and right in time."""
_SHARED: Final[dict[str, Any]] = {
    "windows": "within tolerance_s of the start",
    "judge": "the reference's text, by rules of the task",
    "aggregation": "share of the videos that are right; time_accuracy without contents",
    "main": "accuracy",
    "summarize": summarize_samples,
    "parameters": {"tolerance_s": Parameter(default=1.0), "right_accuracy": Parameter(default=1.0, maximum=1.0)},
}
PROTOCOLS: Final = (
    Protocol(
        name="ipibench-single",
        matching="the first reply and the only reference",
        source="IPIBench, Evaluate/PM and Evaluate/IRP (31bdb5a)",
        count=_count_first,
        has_one_reference=True,
        **_SHARED,
    ),
    Protocol(
        name="ipibench-repeated",
        matching="in order, as many replies as references; else the video is wrong",
        source="IPIBench, by a summary; Evaluate/ (31bdb5a) has no such scorer",
        count=_count_repeated,
        **_SHARED,
    ),
)
