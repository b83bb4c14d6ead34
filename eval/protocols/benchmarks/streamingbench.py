"""StreamingBench, proactive output: the first yes to a question that is asked every second.

**Source**: StreamingBench (arXiv 2411.03628), ``StreamingBenchProactive.py`` and ``count.py``.
"""

from typing import Final

from stepscope.eval.protocols.benchmarks.ipibench import summarize_samples
from stepscope.eval.protocols.protocol import ROUNDING, Counted, Parameter, Protocol, Video


def _count(video: Video, *, tolerance_s: float, wait_s: float, right_accuracy: float) -> Counted:
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
        name="streamingbench-po",
        windows="within tolerance_s of the start; asked until wait_s after it",
        matching="the first reply, or the end of the wait, and the only reference",
        judge="the reply contains the reference's text",
        aggregation="share of the videos that are right; time_accuracy without contents",
        source="StreamingBench (arXiv 2411.03628), StreamingBenchProactive.py, count.py",
        main="accuracy",
        count=_count,
        summarize=summarize_samples,
        parameters={
            "tolerance_s": Parameter(default=2.0),
            "wait_s": Parameter(default=4.0),
            "right_accuracy": Parameter(default=1.0, maximum=1.0),
        },
        has_one_reference=True,
    ),
)
