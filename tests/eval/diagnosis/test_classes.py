"""A class is given only to a change that fixes more than it breaks, adds no false trigger and beats its placebo."""

from dataclasses import replace

import pytest

from stepscope.eval.diagnosis.classes import UNEXPLAINED, classify
from stepscope.eval.diagnosis.experiments import Experiment, Kind
from stepscope.eval.diagnosis.gold import GoldResult
from stepscope.eval.diagnosis.videos import VideoDiagnosis
from stepscope.eval.runs.roots import Root, TracedFailure

ORDER: Kind = "prompt: order"


def experiment(name: str, kind: Kind = ORDER, *, is_placebo: bool = False) -> Experiment:
    return Experiment(name=name, kind=kind, vary=lambda variant, _: variant, is_placebo=is_placebo)


def result(*wrong: int, false: tuple[int, ...] = (), num_turns: int = 6) -> GoldResult:
    right = tuple(turn for turn in range(num_turns) if turn not in wrong)
    return GoldResult(right=right, wrong=wrong, false_triggers=false)


def video(gold: GoldResult, name: str = "video", **results: GoldResult) -> VideoDiagnosis:
    """Return a video whose turn 0 is the root, at frame 4, with one consequence."""
    root = Root(frame=4, time_s=2.0, references=(0,), kinds=("missed",), num_consequences=1)
    return VideoDiagnosis(
        video_id=name,
        source="",
        num_failures=(2, 0),
        roots=(root,),
        failures=(
            TracedFailure(kind="missed", time_s=2.0, root=0, is_consequence=False),
            TracedFailure(kind="wrong state", time_s=2.5, root=0, is_consequence=True),
        ),
        gold=gold,
        results=results,
    )


TRIED = [experiment("change"), experiment("placebo", is_placebo=True)]


@pytest.mark.parametrize(
    ("change", "placebo", "cause"),
    [
        (result(), result(0), ORDER),  # fixes 1, breaks 0; the placebo nothing
        (result(3), result(0), UNEXPLAINED),  # fixes 1, breaks 1
        (result(false=(9,)), result(0), UNEXPLAINED),  # adds a false trigger elsewhere
        (result(), result(), UNEXPLAINED),  # the placebo helps as much
        (result(0), result(), UNEXPLAINED),  # only the placebo helps
        (result(false=(4,)), result(0), UNEXPLAINED),  # right, with a false trigger at the root
    ],
)
def test_a_change_explains_a_root_only_with_its_controls(change: GoldResult, placebo: GoldResult, cause: str) -> None:
    found = classify([video(result(0), change=change, placebo=placebo)], TRIED)
    assert [root.cause for root in found.roots] == [cause]
    assert [root.fixed_by for root in found.roots] == [("change",) if cause == ORDER else ()]


def test_controls_are_those_of_the_whole_split() -> None:
    videos = [
        video(result(0), name="a", change=result(), placebo=result(0)),
        video(result(0), name="b", change=result(0, 2, 3), placebo=result(0)),
    ]
    found = classify(videos, TRIED)
    assert [root.cause for root in found.roots] == [UNEXPLAINED] * 2
    assert [(effect.fixed, effect.broken) for effect in found.effects] == [(1, 2), (0, 0)]


def test_a_model_that_is_mostly_wrong_has_no_controls_and_no_class() -> None:
    found = classify([video(result(0, 1, 2, 3), change=result(), placebo=result(0, 1, 2, 3))], TRIED)
    assert [root.cause for root in found.roots] == [UNEXPLAINED]
    assert not any(effect.is_accepted for effect in found.effects)


def test_a_root_that_gold_history_prevents_is_history() -> None:
    found = classify([video(result(), change=result(), placebo=result())], TRIED)
    assert [root.cause for root in found.roots] == ["history"]


def test_the_first_kind_that_explains_a_root_is_its_class_and_all_changes_are_named() -> None:
    tried = [experiment("faster", "frames: rate"), experiment("ids", "prompt: ids")]
    found = classify([video(result(0), faster=result(), ids=result())], tried)
    assert [(root.cause, root.fixed_by) for root in found.roots] == [("prompt: ids", ("faster", "ids"))]


def test_shares_count_roots_with_intervals_over_videos() -> None:
    videos = [
        video(result(0), name="a", change=result(), placebo=result(0)),
        video(result(0), name="b", change=result(0), placebo=result(0)),
        VideoDiagnosis(video_id="c", source="", error="cannot be read"),
    ]
    found = classify(videos, TRIED)
    assert {name: (share.number, share.share) for name, share in found.shares.items()} == {
        ORDER: (1, 0.5),
        UNEXPLAINED: (1, 0.5),
    }
    assert (found.consequences.number, found.consequences.share) == (2, 0.5)
    assert (found.shares[ORDER].interval.low, found.shares[ORDER].interval.high) == (0, 1)


def test_a_row_per_failure_has_its_root_and_what_fixes_it() -> None:
    rows = classify([video(result(0), change=result(), placebo=result(0))], TRIED).rows()
    assert [(row["time_s"], row["root_time_s"], row["class"], row["fixed_by"]) for row in rows] == [
        (2.0, 2.0, ORDER, "change"),
        (2.5, 2.0, "history", "change"),
    ]


def test_without_videos_there_is_nothing() -> None:
    found = classify([], TRIED)
    assert (found.roots, found.rows(), found.num_failures) == ((), [], 0)


def test_false_triggers_that_vanish_count_and_placebos_that_help_are_named() -> None:
    gold = result(false=(4, 9))
    root = Root(frame=4, time_s=2.0, references=(), kinds=("redundant",), num_consequences=0)
    videos = [replace(video(gold, name), roots=(root,)) for name in ("a", "b")]
    videos = [replace(one, results={"change": result(), "placebo": gold}) for one in videos]
    videos[1] = replace(videos[1], results={"change": result(), "placebo": result(false=(9,))})
    found = classify(videos, TRIED)
    assert [(effect.removed, effect.surplus) for effect in found.effects] == [(4, 4), (1, 1)]
    assert [root.cause for root in found.roots] == [ORDER, ORDER]
    assert [root.fixed_by for root in found.roots] == [("change",), ("change", "placebo (placebo)")]
