"""The scores of a split with their intervals, and of its videos, ready for the tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from eval.metrics.bootstrap import NUM_RESAMPLES, Interval, bootstrap
from eval.metrics.counts import Pool
from eval.metrics.definitions import METRICS
from eval.metrics.score import ScoreTexts, VideoCounts, score_counts, summarize


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The scores of the videos of a split that have any."""

    num_videos: int
    scores: Mapping[str, float]
    """Scores of the pooled counts; nan if undefined."""
    intervals: Mapping[str, Interval]
    """Their 95 % intervals; counts have none."""
    num_undefined: Mapping[str, int]
    """Per score, the number of videos in which it is undefined, if not 0."""


def make_report(rows: Sequence[VideoCounts], *, score_texts: ScoreTexts, num_resamples: int = NUM_RESAMPLES) -> Report:
    """Score a split; ``score_texts`` is ``TextScorer.summarize`` of an open scorer."""
    pool = Pool(rows, VideoCounts)
    intervals = bootstrap(pool, partial(score_counts, score_texts=score_texts), num_resamples=num_resamples)
    videos = [summarize([row], score_texts=score_texts) for row in rows]
    undefined = {metric.name: sum(math.isnan(scores.get(metric.name, 0.0)) for scores in videos) for metric in METRICS}
    return Report(
        num_videos=len(rows),
        scores=score_counts(pool.total(), score_texts=score_texts),
        intervals={one.name: intervals[one.name] for one in METRICS if one.name in intervals and not one.is_count},
        num_undefined={name: number for name, number in undefined.items() if number},
    )


def compute_video_scores(rows: Sequence[VideoCounts], *, score_texts: ScoreTexts) -> dict[str, float]:
    """Return the scores of one video in the columns of ``videos.csv``; all are nan for no ``rows``."""
    scores = summarize(rows, score_texts=score_texts)
    renamed = {name.replace("CIDEr", "CIDEr_split_df"): value for name, value in scores.items()}
    return {metric.name: renamed[metric.name] for metric in METRICS if metric.scope != "split"}
