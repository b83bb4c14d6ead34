"""The best point beside the present one: kept where nothing is gained, with the paired interval of what is."""

from collections.abc import Sequence
from dataclasses import replace

from stepscope.eval.metrics.failures import FailureCounts
from stepscope.eval.metrics.matched_video import FAILURE_KINDS
from stepscope.eval.metrics.score import VideoCounts
from stepscope.eval.sweeps.best_point import (
    PresentPoint,
    compute_gain,
    explain_best,
    find_best,
    find_present,
)
from stepscope.eval.sweeps.folder import SweptVideo
from stepscope.eval.sweeps.grid import Grid, GridScores

GRID = Grid(speak=(0.3, 0.5), update=(0.5,))


def make_scores(*points: dict[str, float]) -> GridScores:
    return GridScores(split="val.json", is_exact=True, grid=GRID, points=points, num_videos=1, errors={})


def count(number: float) -> VideoCounts:
    return VideoCounts(failures=FailureCounts(by_kind=(number, *[0.0] * (len(FAILURE_KINDS) - 1))))


def compare(before: Sequence[float], after: Sequence[float], *, own: tuple[float, float] = (0.5, 0.5)) -> str:
    """Return the sentences of a sweep whose videos have these failures at the present and at the best point."""
    names = "abcdef"[: len(before)]
    present = PresentPoint(
        thresholds=own,
        scores={"num_failures": sum(before)},
        counts={} if GRID.find(own) is not None else dict(zip(names, map(count, before), strict=True)),
    )
    best = find_best(make_scores({"num_failures": sum(after)}, {"num_failures": 99}), "num_failures", present=present)
    videos = [
        SweptVideo(video_id=name, source="", runs=(count(new), count(old)), points=(0, 1), passes=(1, 1))
        for name, old, new in zip(names, before, after, strict=True)
    ]
    return explain_best(best, compute_gain(best, videos))


def test_the_present_point_is_kept_where_no_other_is_better_also_off_the_grid() -> None:
    scores = make_scores({"F1": 0.957}, {"F1": 0.957})
    assert find_best(scores, "F1").speak_threshold == 0.3
    kept = find_best(scores, "F1", present=find_present(scores, (0.5, 0.5)))
    assert (kept.thresholds, kept.is_present) == ((0.5, 0.5), True)
    assert f"{kept}. {explain_best(kept)}".startswith(
        "F1 0.957 at speak 0.5, update 0.5 (2 points have this value). The present thresholds stay: no point is better."
    )
    assert find_present(scores, (0.4, 0.4)) is None
    off_grid = PresentPoint(thresholds=(0.4, 0.4), scores={"F1": 0.957})
    tied = find_best(scores, "F1", present=off_grid)
    assert (tied.thresholds, tied.num_tied, compute_gain(tied, [])) == ((0.4, 0.4), 3, None)
    nearly = make_scores({"F1": 0.9574}, {"F1": 0.957})
    stays = find_best(nearly, "F1", present=find_present(nearly, (0.5, 0.5)))
    assert (stays.is_present, stays.ties) == (True, "2 points have this value"), "0.0004 shows as a gain of 0.000"
    assert find_best(nearly, "F1").num_tied == 2
    alone = find_best(scores, "F1", present=replace(off_grid, scores={"F1": 0.96}))
    assert (alone.value, alone.ties) == (0.96, "")


def test_a_rule_with_one_threshold_has_a_present_point() -> None:
    scores = replace(make_scores({"F1": 0.5}, {"F1": 0.6}), grid=Grid(speak=(1 - 0.8, 0.5), update=()))
    present = find_present(scores, (0.2, 0.5))
    assert present is not None
    assert present.scores == {"F1": 0.5}


def test_the_interval_of_the_gain_is_paired_by_video() -> None:
    # 3 and 1 failures become 1 and 1: a resample draws the first video 0, 1 or 2 times, with a gain of 0, 2 or 4
    said = compare([3, 1], [1, 1])
    assert said.startswith(
        "Present: speak 0.5, update 0.5; 4. Better by 2, 95 % interval 0 to 4, paired by video: it may be chance."
    )
    # each of six videos has 2 less, so every resample has 12 less, whatever their own numbers are
    assert "Better by 12, 95 % interval 12 to 12, paired by video." in compare([2, 9, 3, 4, 2, 5], [0, 7, 1, 2, 0, 3])
    assert "Present: speak 0.4, update 0.4; 4. Better by 2, 95 % interval 0 to 4" in compare(
        [3, 1], [1, 1], own=(0.4, 0.4)
    )
    assert "Better by 2, too few videos for an interval." in compare([3], [1])
