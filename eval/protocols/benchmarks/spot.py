"""SPOT-Bench's T-Score and T-F1@K: full timeliness around the reference time, and a Gaussian fall outside of it.

**Source**: SPOT (arXiv 2604.24317), ``evals/metrics.py``, ``scorer.py`` and ``config.py`` in SPOT-Bench (035eea2).
"""

import math
from typing import Final, NamedTuple

from stepscope.eval.protocols.protocol import Counted, Parameter, Protocol, Sums, Video, compute_f1

SILENCE: Final = frozenset({"no", "none", "nothing", "no answer", "no response", "no reply"})


class _Task(NamedTuple):
    offset_s: float
    sigma_early_s: float
    sigma_late_s: float
    right_accuracy: float
    judge: str


_KEYWORDS: Final = "keywords"
_TASKS: Final = {
    "pnr": _Task(0.5, 0.74, 0.37, 1.0, _KEYWORDS),
    "ui": _Task(0.5, 0.74, 0.37, 0.4, "LLM, 2 of 0 to 5"),
    "abd": _Task(1.0, 1.48, 0.74, 1.0, _KEYWORDS),
    "sqa": _Task(1.0, 1.48, 0.74, 0.6, "LLM, 3 of 0 to 5"),
    "spg": _Task(1.5, 2.22, 1.11, 0.6, "LLM, 3 of 0 to 5"),
    "si": _Task(1.5, 2.22, 1.11, 0.4, "LLM, 2 of 0 to 5"),
}


def _rate(distance_s: float, *, offset_s: float, sigma_early_s: float, sigma_late_s: float) -> float:
    """Return the timeliness of a reply, which comes ``distance_s`` after the reference."""
    outside_s = abs(distance_s) - offset_s
    sigma_s = sigma_early_s if distance_s < 0 else sigma_late_s
    return 1.0 if outside_s <= 0 else math.exp(-(outside_s**2) / (2 * sigma_s**2))


def _count(
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


def _summarize(sums: Sums) -> dict[str, float]:
    timeliness, num_references = sums["timeliness"], sums["references"]
    if not num_references:
        return dict.fromkeys(("t_score", "precision", "recall", "f1"), math.nan)
    num_counted = sums["matched"] + sums["false_alarms"]
    precision = timeliness / num_counted if num_counted else 0.0
    t_score = timeliness / num_references
    return {"t_score": t_score, "precision": precision, "recall": t_score, "f1": compute_f1(precision, t_score)}


def _make(name: str, task: _Task) -> Protocol:
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
        count=_count,
        summarize=_summarize,
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


PROTOCOLS: Final = tuple(_make(name, task) for name, task in _TASKS.items())
