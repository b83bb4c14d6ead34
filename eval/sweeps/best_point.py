"""The best point of a grid of thresholds by one score, the points that tie with it, and the present point."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from stepscope.eval.data.samples import Sample
from stepscope.eval.metrics.counts import Interval, Pool
from stepscope.eval.metrics.definitions import NUM_FAILURES, compute_loss, find_metric, has_direction
from stepscope.eval.metrics.score import MEASURES, VideoAnalysis, VideoCounts, score_counts
from stepscope.eval.reports.statistics import compare_scores
from stepscope.eval.sweeps.folder import SweptVideo
from stepscope.eval.sweeps.grid import RECOMMENDED_METRICS, SWEEP_METRICS, Grid, GridScores, check_known


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentPoint:
    """The present thresholds, as a rule those of a run, scored as a point of their own, on the grid or off it."""

    thresholds: tuple[float, float]
    """The speak and the update threshold; one that is not swept has no effect."""
    scores: Mapping[str, float]
    """Scores by name, as of a point of the grid."""
    counts: Mapping[str, VideoCounts] = field(default_factory=dict)
    """By video; empty for a preview and on the grid, where the sweep has the counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestPoint:
    """The point of a grid with the best value of one score, or the present point if no other is better."""

    metric: str
    scores: Mapping[str, float]
    speak_threshold: float
    update_threshold: float
    num_tied: int
    num_plateau: int
    """Number of such points that are connected with this one; 1 for the present point."""
    split: str
    grid: Grid
    present: PresentPoint | None = None
    is_present: bool = False
    """Whether this is the present point, which may lie off the grid."""

    @property
    def value(self) -> float:
        """The best value of the score."""
        return self.scores[self.metric]

    @property
    def thresholds(self) -> tuple[float, float]:
        """The speak and the update threshold; nan for one that is not swept."""
        return self.speak_threshold, self.update_threshold

    @property
    def place(self) -> str:
        """Both thresholds as text."""
        return self.grid.describe(*self.thresholds)

    @property
    def ties(self) -> str:
        """The points with the same value, and the choice among them, as text; empty for a single best point."""
        if self.num_tied == 1:
            return ""
        middle = f"the middle of their largest group of neighbours, {self.num_plateau}"
        choice = middle if self.num_plateau > 1 else "the first of them, as none are neighbours"
        return f"{self.num_tied} points have this value{'' if self.is_present else f'; this is {choice}'}"

    def __str__(self) -> str:
        text = f"{self.metric}{self.grid.of_rule} {self.format(self.value)} at {self.place}"
        return f"{text} ({self.ties})" if self.ties else text

    def format(self, value: float) -> str:
        """Return a value of the score as text, such as ``0.957``, or ``3`` of a count."""
        digits = find_metric(self.metric).digits
        return "undefined" if math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # -0.0 becomes 0.0


def recommend_metric(known: Sequence[str]) -> str:
    """Return the score of ``known`` to choose thresholds by, the first in ``RECOMMENDED_METRICS``.

    Raises ``ValueError`` if none is known.
    """
    for name in RECOMMENDED_METRICS:
        if name in known:
            return name
    raise ValueError(f"the points have none of the scores {', '.join(RECOMMENDED_METRICS)}; choose one of theirs")


def check_metrics(names: Sequence[str], *, known: Sequence[str] = SWEEP_METRICS) -> None:
    """Raise ``ValueError`` for an unknown score, or one without a direction; see ``has_direction``."""
    for name in names:
        check_known(name, known)
        if not has_direction(name):
            raise ValueError(f"{name} has no better or worse values; choose a different score")


def find_best(scores: GridScores, metric: str, *, present: PresentPoint | None = None) -> BestPoint:
    """Return the point with the best value of a score, in the direction of its definition.

    Points tie whose difference shows as 0. They form connected plateaus. The result is the point nearest to the middle
    of the largest plateau, in steps of the grid, since there both thresholds tolerate small deviations on new videos.
    If no point is better than the present one, that is the result: nothing is gained by a change.

    Raises ``ValueError`` for an unknown score, and for one that is undefined at every point.
    """
    check_metrics([metric], known=scores.metrics)
    grid, values = scores.grid, np.array(scores.as_matrix(metric), float)
    loss = compute_loss(metric, values)
    if np.isnan(loss).all():
        raise ValueError(f"{metric} is undefined at every point of the grid; choose a different score")
    lowest = float(np.nanmin(loss))
    own = math.nan if present is None else compute_loss(metric, present.scores[metric])
    digits = find_metric(metric).digits
    if present is not None and np.round(own - lowest, digits) <= 0:
        num_tied = int((np.round(loss - own, digits) <= 0).sum()) + (grid.find(present.thresholds) is None)
        chosen, (speak, update), num_plateau = present.scores, present.thresholds, 1
        is_present = True
    else:
        is_best, is_present = np.round(loss - lowest, digits) <= 0, False
        num_tied = int(is_best.sum())
        row, column, num_plateau = _find_middle(is_best)
        place = row * values.shape[1] + column
        chosen, (speak, update) = scores.points[place], list(grid.pairs())[place]
    return BestPoint(
        metric=metric,
        scores=chosen,
        speak_threshold=speak if grid.speak else math.nan,
        update_threshold=update if grid.update else math.nan,
        num_tied=num_tied,
        num_plateau=num_plateau,
        split=scores.split,
        grid=grid,
        present=present,
        is_present=is_present,
    )


def _find_middle(is_best: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Return the row and column of the cell nearest to the middle of the largest plateau, and the plateau's size.

    For ``is_best`` of ``110 / 110 / 001``, the plateaus have 4 and 1 cells and the result is ``(0, 0, 4)``.
    """
    plateaus: NDArray[Any] = ndimage.label(is_best)[0]
    cells = np.argwhere(plateaus == 1 + np.bincount(plateaus[is_best])[1:].argmax())
    row, column = cells[((cells - cells.mean(axis=0)) ** 2).sum(axis=1).argmin()]
    return int(row), int(column), len(cells)


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
    """Return the present value, the gain over it and its price, as sentences; ``gain`` is None for a preview."""
    present = best.present
    if present is None:
        return ""
    if best.is_present:
        return "The present thresholds stay: no point is better."
    value = present.scores[best.metric]
    words = [f"Present: {best.grid.describe(*present.thresholds)}; {best.format(value)}."]
    difference = compute_loss(best.metric, value) - compute_loss(best.metric, best.value)
    if not math.isnan(difference):
        words.append(f"Better by {best.format(difference)}, {_describe_interval(best, gain)}.")
    before, after = (scores.get(NUM_FAILURES, math.nan) for scores in (present.scores, best.scores))
    if after > before:
        words.append(f"Caution: failures rise from {before:.0f} to {after:.0f}.")
    return " ".join(words)


def _describe_interval(best: BestPoint, gain: Interval | None) -> str:
    if gain is None:
        return "a preview has no interval"
    if math.isnan(gain.low):
        return "too few videos for an interval"
    ends = f"95 % interval {best.format(gain.low)} to {best.format(gain.high)}, paired by video"
    return ends if gain.low > 0 else f"{ends}: it may be chance"


def warn_of_edge(best: BestPoint) -> str:
    """Return a warning if a point that is better than the present one is at the edge of the grid; else no text."""
    if best.is_present:
        return ""
    sides = {"speak": (best.grid.speak, best.speak_threshold), "update": (best.grid.update, best.update_threshold)}
    names = [
        title for name, title in best.grid.titles.items() if sides[name][1] in (sides[name][0][0], sides[name][0][-1])
    ]
    return f"At the edge of the grid of {' and '.join(names)}: a better point may lie outside." if names else ""
