"""The causes of failures, for the player."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepscope.app.core.run import analyze_run
from stepscope.app.player.score_tiles import count_beside, make_tiles
from stepscope.app.review_store.events import name_events
from stepscope.app.window.failures import LOST_PAIR, find_lost_pairs, pack_failure
from stepscope.app.window.landing import find_first_stop, find_worst_moment
from stepscope.app.window.payload import pack_run
from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Turn
from stepscope.eval.metrics.matched_video import Failure, JudgedTurn, JudgedVideo
from stepscope.eval.metrics.score import score_counts
from tests.support.reviews.played import judge, make_run
from tests.support.streams.fakes import count_letters


@pytest.mark.parametrize(("later_s", "cause"), [(0.0, "decoy"), (-1.0, "decoy"), (1.0, "decoy"), (1.5, None)])
def test_an_update_without_a_reference_has_the_cause_of_a_turn_within_one_second(
    tmp_path: Path, later_s: float, cause: str | None
) -> None:
    run = make_run(tmp_path)
    assert run.clip.sample is not None
    turns = tuple(turn for turn in run.clip.sample.turns if turn.role != "update")
    sample = replace(run.clip.sample, turns=turns)
    judged = judge(replace(run, clip=replace(run.clip, sample=sample)))
    failure = next(one for one in judged.failures if one.kind == "wrong update" and one.reference is None)
    time_s = failure.frame_index / sample.fps + later_s
    hard = Turn(time_s=time_s, role="assistant", text="Put it back.", cause="decoy")
    assert pack_failure(failure, judged, replace(sample, turns=(*turns, hard)), run.task, lost={})["cause"] == cause


def test_a_pair_that_zero_cost_drop_loses_is_the_reason_of_both_failures(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert run.clip.sample is not None
    number = next(n for n, turn in enumerate(run.clip.sample.turns) if turn.role == "assistant")
    reference = run.clip.sample.turns[number]
    frame = frame_at(reference.time_s, run.clip.sample.fps)
    spoken = JudgedTurn(role="assistant", frame_index=frame, text=reference.text, outcome="redundant")
    judged = JudgedVideo(turns=(spoken, replace(spoken, text="No.")), failures=())
    failures = [
        Failure(kind="redundant", frame_index=frame, end_frame=frame + 1, turn=0),
        Failure(kind="missed", frame_index=frame, end_frame=frame + 1, reference=number),
        Failure(kind="redundant", frame_index=frame, end_frame=frame + 1, turn=1),
    ]
    lost = find_lost_pairs(judged, run.clip.sample, "drop")
    words = [pack_failure(one, judged, run.clip.sample, run.task, lost=lost)["words"] for one in failures]
    assert words == [LOST_PAIR, LOST_PAIR, "spoke with no reference near"]
    assert find_lost_pairs(judged, run.clip.sample, "keep") == {}


def test_matched_texts_below_the_limit_are_named_where_there_are_no_failures(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    scores = (0.5, 0.796, 0.794, 1.0)  # as shown: 0.80 is not below it
    turns = tuple(
        JudgedTurn(role="assistant", frame_index=2 * n, text="Boat", outcome="matched", semantic_score=score)
        for n, score in enumerate(scores)
    )
    low, calm = JudgedVideo(turns=turns, failures=()), JudgedVideo(turns=turns[3:], failures=())
    events = name_events("a", outputs=run.outputs, references=(), judged=low)
    for moment in (find_first_stop(run, low, events), find_worst_moment(run, low, events)):
        assert (moment.time_s, moment.event) == (0.0, events.written[0].key)
    assert find_first_stop(run, calm, events).time_s is None
    (failures, *_) = make_tiles({"num_failures": 0.0}, **count_beside(low, run.reference), rules="")
    assert (failures.figure, failures.label) == ("0", "Failures, 2 texts below similarity 0.80 (≈)")


def test_turns_after_the_last_frame_are_named_where_failures_are_counted(tmp_path: Path) -> None:
    whole = make_run(tmp_path)
    assert whole.clip.sample is not None
    run = replace(
        whole,
        outputs=tuple(replace(output, response=None) for output in whole.outputs[:2]),
        settings={**whole.settings, "has_states": False},
        clip=replace(
            whole.clip, sample=replace(whole.clip.sample, turns=(Turn(time_s=4.0, role="assistant", text="Now."),))
        ),
    )
    analysis = analyze_run(run, count_letters)
    assert analysis is not None
    assert (analysis.judged.failures, analysis.judged.num_later) == ((), 1)
    (failures, *_) = make_tiles(score_counts(analysis.counts), **count_beside(analysis.judged, run.reference), rules="")
    assert (failures.figure, failures.label) == ("1", "Failures, 1 after the last frame")
    assert json.loads(pack_run(run, analysis.judged))["num_later"] == 1
