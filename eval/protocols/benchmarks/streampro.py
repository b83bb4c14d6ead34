"""StreamPro-F1: a reply counts by its accuracy times how near its answer it is, within the window of its task.

**Source**: StreamPro (arXiv 2605.16381), 3.3 and A.2.2. The task TG, whose accuracy is an overlap in time, is left out.
"""

from typing import Final, NamedTuple

from stepscope.eval.protocols.protocol import (
    ROUNDING,
    Counted,
    Parameter,
    Protocol,
    Span,
    Video,
    measure_delay,
    score_hits,
)


class _Task(NamedTuple):
    tau_early_s: float
    tau_late_s: float
    early_s: float
    late_s: float
    shift_s: float = 0.0


_TASKS: Final = {
    "ou": _Task(4.0, 4.0, 3.0, 3.0),
    "eu": _Task(4.0, 4.0, 0.0, 3.0),
    "tp": _Task(4.0, 4.0, 0.0, 3.0),
    "aa": _Task(6.0, 6.0, 0.0, 5.0),
    "gp": _Task(4.0, 4.0, 3.0, 0.0),
    "rf": _Task(2.0, 4.0, 1.0, 3.0, -3.0),  # around the instant 3 s before the hazard
}


def _count(
    video: Video, *, tau_early_s: float, tau_late_s: float, early_s: float, late_s: float, shift_s: float
) -> Counted:
    spans = [Span(span.start_s + shift_s, span.end_s + shift_s) for span in video.references]
    best = [0.0] * len(spans)
    for time_s, accuracies in zip(video.times_s, video.accuracies, strict=True):
        for number, span in enumerate(spans):
            delay_s = measure_delay(time_s, span)
            if -early_s - ROUNDING <= delay_s <= late_s + ROUNDING:
                tau_s = tau_early_s if delay_s < 0 else tau_late_s
                best[number] = max(best[number], max(0.0, 1 - abs(delay_s) / tau_s) * accuracies[number])
                break  # to the first answer whose window holds it
    return Counted({"hits": sum(best), "replies": len(video.times_s), "references": len(spans)}, tuple(best))


def _make(name: str, task: _Task) -> Protocol:
    return Protocol(
        name=f"streampro-{name}",
        windows="early_s before to late_s after the reference, which is moved by shift_s",
        matching="a reply goes to the first window that holds it; a reference keeps its best",
        judge="accuracy in [0, 1]",
        aggregation=(
            "S = max(0, 1 - distance / tau) x accuracy; precision = sum of S / replies, recall = sum of S / references"
        ),
        source="StreamPro (arXiv 2605.16381), A.2.2",
        main="f1",
        count=_count,
        summarize=score_hits,
        parameters={
            "tau_early_s": Parameter(default=task.tau_early_s, minimum=0.01),
            "tau_late_s": Parameter(default=task.tau_late_s, minimum=0.01),
            "early_s": Parameter(default=task.early_s),
            "late_s": Parameter(default=task.late_s),
            "shift_s": Parameter(default=task.shift_s, minimum=-60.0),
        },
    )


PROTOCOLS: Final = tuple(_make(name, task) for name, task in _TASKS.items())
