"""Speed: latencies per frame, and frames per second of wall time."""

import math
from dataclasses import dataclass, field

from stepscope.eval.metrics.counts import Counts, ratio
from stepscope.eval.metrics.matched_video import MatchedVideo, Measure
from stepscope.eval.metrics.values import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCounts(Counts):
    """Latencies and wall time of one or many videos."""

    num_frames: int = 0
    num_in_time: int = 0
    """Frames done before the next was due."""
    latencies_ms: Values = field(default_factory=Values.of)
    """Per frame, the known time of its model passes."""
    first_token_ms: Values = field(default_factory=Values.of)
    """Per frame with a text, the time from its decision to its first token."""
    num_timed_frames: int = 0
    """Frames of the videos whose wall time is known."""
    wall_s: float = 0.0
    """Wall time of those videos: decoding, vision and model; with stored features only the model."""


def _count(video: MatchedVideo) -> SystemCounts:
    outputs = video.outputs
    return SystemCounts(
        num_frames=len(outputs),
        num_in_time=sum(output.latency_ms <= 1000 / video.sample.fps for output in outputs),
        latencies_ms=Values.of(output.latency_ms for output in outputs if not math.isnan(output.latency_ms)),
        first_token_ms=Values.of(output.first_token_ms for output in outputs if output.first_token_ms is not None),
        num_timed_frames=0 if video.wall_s is None else len(outputs),
        wall_s=video.wall_s or 0.0,
    )


def _summarize(counts: SystemCounts) -> dict[str, float]:
    return {
        "num_frames": float(counts.num_frames),
        "frames_per_s": ratio(counts.num_timed_frames, counts.wall_s),
        "latency_mean_ms": counts.latencies_ms.mean(),
        "latency_p50_ms": counts.latencies_ms.median(),
        "latency_p95_ms": counts.latencies_ms.quantile(0.95),
        "first_token_p50_ms": counts.first_token_ms.median(),
        "first_token_p95_ms": counts.first_token_ms.quantile(0.95),
        "in_time_share": ratio(counts.num_in_time, counts.latencies_ms.total),
    }


MEASURES = (Measure(name="system", kind=SystemCounts, count=_count, summarize=_summarize),)
