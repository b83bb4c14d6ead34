"""The gain of the best point of a sweep over the present thresholds, and both as sentences for page and terminal."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.bootstrap import Interval
from stepscope.eval.metrics.counts import Pool
from stepscope.eval.metrics.definitions import NUM_FAILURES, compute_loss
from stepscope.eval.metrics.score import MEASURES, VideoAnalysis, VideoCounts, score_counts
from stepscope.eval.reports.statistics import compare_scores
from stepscope.eval.sweeps.best_point import BestPoint, PresentPoint
from stepscope.eval.sweeps.folder import SweptVideo
from stepscope.eval.sweeps.grid import GridScores


def find_present(scores: GridScores, thresholds: tuple[float, float]) -> PresentPoint | None:
    """Return the point of the grid with these thresholds; None off the grid."""
    place = scores.grid.find(thresholds)
    return None if place is None else PresentPoint(thresholds=thresholds, scores=scores.points[place])


def score_present(
    thresholds: tuple[float, float], samples: Iterable[Sample], analyze: Callable[[Sample], VideoAnalysis]
) -> PresentPoint:
    """Score the outputs of a run as the point of its thresholds.

    Raises ``ValueError`` if the run lacks one of the videos.
    """
    counts = {sample.video_id: analyze(sample).counts for sample in samples}
    scores = score_counts(Pool(list(counts.values()), VideoCounts).total())
    return PresentPoint(thresholds=thresholds, scores=scores, counts=counts)


def compute_gain(best: BestPoint, videos: Sequence[SweptVideo]) -> Interval | None:
    """Return the interval of the gain of the best over the present point, paired by video; None without a gain.

    A gain is the fall of the loss: two failures less are a gain of 2. The interval of one video is nan.
    """
    present = best.present
    if present is None or best.is_present:
        return None
    own = _list_counts(best, present.thresholds, videos) if not present.counts else present.counts
    new = _list_counts(best, best.thresholds, videos)
    both = [video_id for video_id in new if video_id in own]
    measure = next((one for one in MEASURES if best.metric in one.summarize(one.kind())), None)  # faster than all
    kind, summarize = (VideoCounts, score_counts) if measure is None else (measure.kind, measure.summarize)

    def pick(counts: VideoCounts) -> Any:
        return counts if measure is None else getattr(counts, measure.name)

    def score(total: Any) -> Mapping[str, float]:
        return {"gain": -compute_loss(best.metric, summarize(total)[best.metric])}

    a, b = ([pick(counts[video_id]) for video_id in both] for counts in (own, new))
    return compare_scores(a, b, kind=kind, score=score)["gain"].interval


def _list_counts(
    best: BestPoint, thresholds: tuple[float, float], videos: Sequence[SweptVideo]
) -> Mapping[str, VideoCounts]:
    place = best.grid.find(thresholds)
    assert place is not None, "a point off the grid has counts of its own"
    return {video.video_id: video.runs[video.points[place]] for video in videos}


def explain_best(best: BestPoint, gain: Interval | None = None) -> str:
    """Return the present value, the gain over it and cautions, as sentences; ``gain`` is None for a preview."""
    return " ".join([*_explain_gain(best, gain), *_warn_of_edge(best)])


def _explain_gain(best: BestPoint, gain: Interval | None) -> Iterable[str]:
    present = best.present
    if present is None:
        return
    if best.is_present:
        yield "The present thresholds stay: no point is better."
        return
    value = present.scores[best.metric]
    yield f"Present: {best.grid.describe(*present.thresholds)}; {best.format(value)}."
    difference = compute_loss(best.metric, value) - compute_loss(best.metric, best.value)
    if not math.isnan(difference):
        yield f"Better by {best.format(difference)}, {_describe_interval(best, gain)}."
    before, after = (scores.get(NUM_FAILURES, math.nan) for scores in (present.scores, best.scores))
    if after > before:
        yield f"Caution: failures rise from {before:.0f} to {after:.0f}."


def _describe_interval(best: BestPoint, gain: Interval | None) -> str:
    if gain is None:
        return "a preview has no interval"
    if math.isnan(gain.low):
        return "too few videos for an interval"
    ends = f"95 % interval {best.format(gain.low)} to {best.format(gain.high)}, paired by video"
    return ends if gain.low > 0 else f"{ends}: it may be chance"


def _warn_of_edge(best: BestPoint) -> Iterable[str]:
    """Yield a warning if the point is at the edge of the grid."""
    sides = {"speak": (best.grid.speak, best.speak_threshold), "update": (best.grid.update, best.update_threshold)}
    names = [
        title for name, title in best.grid.titles.items() if sides[name][1] in (sides[name][0][0], sides[name][0][-1])
    ]
    if names:
        yield f"At the edge of the grid of {' and '.join(names)}: a better point may lie outside."
