"""Scores that fall with the distance from a reference: SPOT-Bench's T-Score and T-F1@K, and StreamPro-F1.

StreamPro's task TG, whose accuracy is an overlap in time, is left out.

**Source**: SPOT (arXiv 2604.24317), ``evals/metrics.py``, ``scorer.py`` and ``config.py`` in SPOT-Bench (035eea2);
StreamPro (arXiv 2605.16381), 3.3 and A.2.2.
"""

import math
from typing import Final, NamedTuple

from stepscope.eval.protocols.protocol import (
    ROUNDING,
    Counted,
    Parameter,
    Protocol,
    Span,
    Sums,
    Video,
    compute_f1,
    measure_delay,
    score_hits,
)

SILENCE: Final = frozenset({"no", "none", "nothing", "no answer", "no response", "no reply"})


class _SpotTask(NamedTuple):
    offset_s: float
    sigma_early_s: float
    sigma_late_s: float
    right_accuracy: float
    judge: str


_KEYWORDS: Final = "keywords"
_SPOT_TASKS: Final = {
    "pnr": _SpotTask(0.5, 0.74, 0.37, 1.0, _KEYWORDS),
    "ui": _SpotTask(0.5, 0.74, 0.37, 0.4, "LLM, 2 of 0 to 5"),
    "abd": _SpotTask(1.0, 1.48, 0.74, 1.0, _KEYWORDS),
    "sqa": _SpotTask(1.0, 1.48, 0.74, 0.6, "LLM, 3 of 0 to 5"),
    "spg": _SpotTask(1.5, 2.22, 1.11, 0.6, "LLM, 3 of 0 to 5"),
    "si": _SpotTask(1.5, 2.22, 1.11, 0.4, "LLM, 2 of 0 to 5"),
}


def _rate(distance_s: float, *, offset_s: float, sigma_early_s: float, sigma_late_s: float) -> float:
    """Return the timeliness of a reply, which comes ``distance_s`` after the reference."""
    outside_s = abs(distance_s) - offset_s
    sigma_s = sigma_early_s if distance_s < 0 else sigma_late_s
    return 1.0 if outside_s <= 0 else math.exp(-(outside_s**2) / (2 * sigma_s**2))


def _count_spot(
    video: Video,
    *,
    k: float,
    offset_s: float,
    sigma_early_s: float,
    sigma_late_s: float,
    least_timeliness: float,
    right_accuracy: float,
) -> Counted:
    best = [0.0] * len(video.references)
    taken = [0] * len(video.references)
    false_alarms = 0
    for time_s, accuracies in zip(video.times_s, video.accuracies, strict=True):
        is_matched = False
        for number, span in enumerate(video.references):
            timeliness = _rate(
                time_s - span.start_s, offset_s=offset_s, sigma_early_s=sigma_early_s, sigma_late_s=sigma_late_s
            )
            if taken[number] < k and timeliness >= least_timeliness and accuracies[number] >= right_accuracy:
                taken[number] += 1
                best[number] = max(best[number], timeliness)
                is_matched = True  # and it may match further references
        false_alarms += not is_matched
    sums = {
        "timeliness": sum(best),
        "matched": sum(map(bool, taken)),
        "references": len(best),
        "false_alarms": false_alarms if best else 0,  # the published scorer skips videos without references
    }
    return Counted(sums, tuple(best))


def _summarize_spot(sums: Sums) -> dict[str, float]:
    timeliness, num_references = sums["timeliness"], sums["references"]
    if not num_references:
        return dict.fromkeys(("t_score", "precision", "recall", "f1"), math.nan)
    num_counted = sums["matched"] + sums["false_alarms"]
    precision = timeliness / num_counted if num_counted else 0.0
    t_score = timeliness / num_references
    return {"t_score": t_score, "precision": precision, "recall": t_score, "f1": compute_f1(precision, t_score)}


def _make_spot(name: str, task: _SpotTask) -> Protocol:
    return Protocol(
        name=f"spot-{name}",
        windows="T = 1 within offset_s of the start, then a Gaussian fall; at least least_timeliness",
        matching="by time; each reference takes up to k right replies, also of others, and keeps the best T",
        judge=task.judge,
        aggregation=(
            "precision = sum of T / (matched references + unmatched replies), recall = T-Score = sum of T / "
            "references; videos without references do not count"
        ),
        source="SPOT (arXiv 2604.24317), evals/ in SPOT-Bench (035eea2)",
        main="f1",
        count=_count_spot,
        summarize=_summarize_spot,
        parameters={
            "k": Parameter(default=5, minimum=1, maximum=1000),
            "offset_s": Parameter(default=task.offset_s),
            "sigma_early_s": Parameter(default=task.sigma_early_s, minimum=0.01),
            "sigma_late_s": Parameter(default=task.sigma_late_s, minimum=0.01),
            "least_timeliness": Parameter(default=0.05, maximum=1.0),
            "right_accuracy": Parameter(default=task.right_accuracy, maximum=1.0),
        },
        silence=SILENCE,
    )


class _StreamProTask(NamedTuple):
    tau_early_s: float
    tau_late_s: float
    early_s: float
    late_s: float
    shift_s: float = 0.0


_STREAMPRO_TASKS: Final = {
    "ou": _StreamProTask(4.0, 4.0, 3.0, 3.0),
    "eu": _StreamProTask(4.0, 4.0, 0.0, 3.0),
    "tp": _StreamProTask(4.0, 4.0, 0.0, 3.0),
    "aa": _StreamProTask(6.0, 6.0, 0.0, 5.0),
    "gp": _StreamProTask(4.0, 4.0, 3.0, 0.0),
    "rf": _StreamProTask(2.0, 4.0, 1.0, 3.0, -3.0),  # around the instant 3 s before the hazard
}


def _count_streampro(
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


def _make_streampro(name: str, task: _StreamProTask) -> Protocol:
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
        count=_count_streampro,
        summarize=score_hits,
        parameters={
            "tau_early_s": Parameter(default=task.tau_early_s, minimum=0.01),
            "tau_late_s": Parameter(default=task.tau_late_s, minimum=0.01),
            "early_s": Parameter(default=task.early_s),
            "late_s": Parameter(default=task.late_s),
            "shift_s": Parameter(default=task.shift_s, minimum=-60.0),
        },
    )


PROTOCOLS: Final = (
    *(_make_spot(name, task) for name, task in _SPOT_TASKS.items()),
    *(_make_streampro(name, task) for name, task in _STREAMPRO_TASKS.items()),
)
