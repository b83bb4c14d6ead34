"""Rules by which a video is right or wrong as a whole, by the times of its replies: IPIBench and StreamingBench.

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


_summarize_samples: Final = divide_by("samples", accuracy="right", time_accuracy="timed")
_IPIBENCH: Final[dict[str, Any]] = {
    "windows": "within tolerance_s of the start",
    "judge": "the reference's text, by rules of the task",
    "aggregation": "share of the videos that are right; time_accuracy without contents",
    "main": "accuracy",
    "summarize": _summarize_samples,
    "parameters": {"tolerance_s": Parameter(default=1.0), "right_accuracy": Parameter(default=1.0, maximum=1.0)},
}


def _count_answered(video: Video, *, tolerance_s: float, wait_s: float, right_accuracy: float) -> Counted:
    if not video.references:
        return Counted({"timed": 0, "right": 0, "samples": 0}, ())
    due_s = video.references[0].start_s
    # A program that never says yes was last asked at the end of the wait.
    answered_s = min([*video.times_s[:1], due_s + wait_s])
    is_timed = abs(answered_s - due_s) <= tolerance_s + ROUNDING
    is_right = is_timed and answered_s in video.times_s[:1] and video.accuracies[0][0] >= right_accuracy
    return Counted({"timed": is_timed, "right": is_right, "samples": 1}, (float(is_right),))


PROTOCOLS: Final = (
    Protocol(
        name="ipibench-single",
        matching="the first reply and the only reference",
        source="IPIBench, Evaluate/PM and Evaluate/IRP (31bdb5a)",
        count=_count_first,
        has_one_reference=True,
        **_IPIBENCH,
    ),
    Protocol(
        name="ipibench-repeated",
        matching="in order, as many replies as references; else the video is wrong",
        source="IPIBench, by a summary; Evaluate/ (31bdb5a) has no such scorer",
        count=_count_repeated,
        **_IPIBENCH,
    ),
    Protocol(
        name="streamingbench-po",
        windows="within tolerance_s of the start; asked until wait_s after it",
        matching="the first reply, or the end of the wait, and the only reference",
        judge="the reply contains the reference's text",
        aggregation="share of the videos that are right; time_accuracy without contents",
        source="StreamingBench (arXiv 2411.03628), StreamingBenchProactive.py, count.py",
        main="accuracy",
        count=_count_answered,
        summarize=_summarize_samples,
        parameters={
            "tolerance_s": Parameter(default=2.0),
            "wait_s": Parameter(default=4.0),
            "right_accuracy": Parameter(default=1.0, maximum=1.0),
        },
        has_one_reference=True,
    ),
)
