from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.eval.annotations.corrected_samples import Conflict, Proposal, apply_corrections
from stepscope.eval.annotations.corrections import Correction, CorrectionKind, TurnName, name_turns
from stepscope.eval.data.samples import Sample, Turn, is_inside
from tests.support.data.strategies import BOAT, few, samples

GO = Turn(time_s=1.0, role="assistant", text="Go.")
START = Turn(time_s=1.0, role="update", text="S2->start")
END = Turn(time_s=1.0, role="update", text="S1->complete")
ASK = Turn(time_s=2.0, role="user", text="Next?")
SAMPLE = replace(BOAT, turns=(END, START, GO, ASK))
NAME = name_turns(SAMPLE.turns)[0]


def correct(
    kind: CorrectionKind,
    turn: Turn = GO,
    *,
    by: str = "ann",
    text: str | None = None,
    time_s: float | None = None,
    number: int = 0,
) -> Correction:
    name = TurnName(role=turn.role, time_s=turn.time_s, text=turn.text, number=number)
    return Correction(reviewer=by, kind=kind, turn=name, text=text, time_s=time_s)


def corrected(*corrections: Correction, prefer: tuple[str, ...] = ()) -> tuple[Turn, ...]:
    result = apply_corrections(SAMPLE, corrections, prefer=prefer)
    assert result.unusable == ()
    assert [turn.turn for turn in result.turns] == list(result.sample.turns)
    return result.sample.turns


def test_text_time_and_update_are_changed_and_the_order_follows() -> None:
    turns = corrected(
        correct("text", text="Now."), correct("time", time_s=3.0), correct("update", START, text=" S2 -> complete ")
    )
    assert turns == (END, replace(START, text="S2->complete"), ASK, replace(GO, text="Now.", time_s=3.0))


def test_a_turn_is_added_changed_and_deleted_under_the_name_it_was_added_by() -> None:
    new = Turn(time_s=4.0, role="assistant", text="New.")
    assert corrected(correct("add", new))[-1] == new
    assert corrected(correct("add", new), correct("text", new, text="Newer."))[-1] == replace(new, text="Newer.")
    assert corrected(correct("add", new), correct("delete", new)) == SAMPLE.turns
    both = corrected(correct("add", new), correct("add", new, by="bob"))
    assert both == (*SAMPLE.turns, new)
    assert corrected(correct("add", new), correct("add", new, number=1)) == (*SAMPLE.turns, new, new)


def test_a_deleted_turn_is_listed_and_an_edit_after_it_brings_it_back() -> None:
    assert apply_corrections(SAMPLE, [correct("delete")]).deleted == (2,)
    assert corrected(correct("delete")) == (END, START, ASK)
    assert corrected(correct("text", text="Now."), correct("delete")) == (END, START, ASK)
    assert corrected(correct("delete"), correct("time", time_s=1.5))[2] == replace(GO, time_s=1.5)


def test_a_step_boundary_moves_all_updates_of_its_time_and_no_words() -> None:
    moved = corrected(correct("boundary", START, time_s=1.5))
    assert moved == (GO, replace(END, time_s=1.5), replace(START, time_s=1.5), ASK)


def test_a_moved_boundary_does_not_bring_back_what_its_reviewer_deleted() -> None:
    moved = corrected(correct("delete", END), correct("boundary", START, time_s=1.5))
    assert moved == (GO, replace(START, time_s=1.5), ASK)
    back = corrected(
        correct("delete", END), correct("boundary", START, time_s=1.5), correct("update", END, text=END.text)
    )
    assert back == (END, GO, replace(START, time_s=1.5), ASK)
    by_bob = [correct("delete", END), correct("boundary", START, by="bob", time_s=1.5)]
    assert [conflict.aspect for conflict in apply_corrections(SAMPLE, by_bob).conflicts] == ["presence"]


@pytest.mark.parametrize("time_s", [-0.1, 1.16, float("nan")])
def test_a_time_is_inside_where_it_is_on_a_frame_of_the_video(time_s: float) -> None:
    sample = replace(SAMPLE, fps=25.0, num_frames=29)
    assert is_inside(0.0, sample)
    assert is_inside(1.15, sample)
    assert not is_inside(time_s, sample)  # 1.16 s is on frame 29, though 1.16 * 25 is 28.999... in floating point


def test_where_reviewers_differ_the_source_stands_and_both_are_shown() -> None:
    corrections = [correct("text", text="Hers."), correct("text", by="bob", text="His."), correct("time", time_s=1.5)]
    result = apply_corrections(SAMPLE, corrections)
    assert replace(GO, time_s=1.5) in result.sample.turns
    proposals = (Proposal(reviewer="ann", value="Hers."), Proposal(reviewer="bob", value="His."))
    assert result.conflicts == (Conflict(turn=corrections[0].turn, aspect="text", proposals=proposals),)
    assert replace(GO, time_s=1.5, text="His.") in corrected(*corrections, prefer=("eve", "bob", "ann"))
    assert apply_corrections(SAMPLE, corrections, prefer=("eve",)).conflicts == result.conflicts
    assert apply_corrections(SAMPLE, [*corrections, correct("text", by="bob", text="Hers.")]).conflicts == ()


NEW = Turn(time_s=4.0, role="assistant", text="New.")


@pytest.mark.parametrize(
    ("corrections", "prefer", "statuses"),
    [
        ([correct("text", text="a"), correct("text", text="b")], (), "replaced, effective"),
        ([correct("text", text="a"), correct("text", text="b", by="bob")], (), "in conflict, in conflict"),
        ([correct("text", text="a"), correct("text", text="b", by="bob")], ("bob",), "overruled, effective"),
        ([correct("delete"), correct("text", text="a")], (), "replaced, effective"),
        ([correct("delete"), correct("text", text="a", by="bob")], (), "in conflict, effective"),
        (
            [correct("add", NEW), correct("delete", NEW), correct("text", NEW, text="a")],
            (),
            "effective, replaced, effective",
        ),
        ([correct("boundary", END, time_s=2.0), correct("time", END, time_s=3.0)], (), "effective, effective"),
        (
            [correct("delete", START), correct("delete", END), correct("boundary", END, time_s=2.0)],
            (),
            "effective, effective, replaced",
        ),
        ([correct("text", ASK, text="a"), correct("delete", NEW)], (), "effective, does not fit"),
    ],
)
def test_each_correction_says_whether_it_is_in_force(
    corrections: list[Correction], prefer: tuple[str, ...], statuses: str
) -> None:
    assert ", ".join(apply_corrections(SAMPLE, corrections, prefer=prefer).statuses) == statuses


def test_a_deletion_against_an_edit_is_a_conflict() -> None:
    edits = [correct("delete"), correct("text", by="bob", text="Now.")]
    (conflict,) = apply_corrections(SAMPLE, edits).conflicts
    assert (conflict.aspect, [wish.value for wish in conflict.proposals]) == ("presence", ["delete", "keep"])
    assert replace(GO, text="Now.") in corrected(*edits)
    assert corrected(*edits, prefer=("ann",)) == (END, START, ASK)


def test_turns_that_are_alike_are_told_apart_by_number() -> None:
    twice = replace(BOAT, turns=(GO, GO))
    assert [name.number for name in name_turns(twice.turns)] == [0, 1]
    result = apply_corrections(twice, [correct("text", text="Second.", number=1)])
    assert [turn.text for turn in result.sample.turns] == ["Go.", "Second."]


@pytest.mark.parametrize(
    ("correction", "reason"),
    [
        (
            correct("text", replace(GO, text="Gone."), text="x"),
            "no assistant turn 'Gone.' at 1 s; the source has changed",
        ),
        (correct("text", text=" "), "text must not be blank"),
        (correct("update", START, text="S9->start"), "of a step among S1, S2; got 'S9->start'"),
        (correct("time", time_s=6.0), "from 0 to below 6 s; got 6.0"),
    ],
)
def test_a_correction_that_does_not_fit_is_listed_with_its_reason_and_changes_nothing(
    correction: Correction, reason: str
) -> None:
    result = apply_corrections(SAMPLE, [correction])
    assert result.sample == SAMPLE
    (unusable,) = result.unusable
    assert unusable.correction == correction
    assert reason in unusable.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"time_s": float("nan")}, "time_s must be a number from -1e.09 to 1e.09; got nan"),
        ({"text": "x" * 50_001}, "must be text of at most 50000 characters"),
    ],
)
def test_a_correction_out_of_bounds_cannot_be_made(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Correction(**{"reviewer": "ann", "kind": "text", "turn": NAME, **change})


@given(samples(), st.data())
@few
def test_one_reviewers_corrections_never_conflict_and_name_every_turn(sample: Sample, data: st.DataObject) -> None:
    names = name_turns(sample.turns)
    assert len({name.key for name in names}) == len(names)
    kinds: st.SearchStrategy[CorrectionKind] = st.sampled_from(["time", "delete"])
    edits = [
        Correction(reviewer="ann", kind=kind, turn=name, time_s=1.5)
        for name in names
        for kind in data.draw(st.lists(kinds, max_size=2))
    ]
    result = apply_corrections(sample, edits)
    assert result.conflicts == ()
    assert len(result.turns) + len(result.deleted) == len(sample.turns)


def spanned(*corrections: tuple[str, float | None, float | None], related_end_s: float | None = None) -> Sample:
    """Return a sample of 10 s whose only turn, at 2 s with the reply span to 4 s, is corrected by pairs of times."""
    turn = Turn(time_s=2.0, role="assistant", text="Now.", end_s=4.0, related_end_s=related_end_s)
    sample = Sample(
        video_id="v", video_path=None, fps=2.0, num_frames=20, goal="", steps=(), turns=(turn,), initial_state={}
    )
    (name,) = name_turns(sample.turns)
    made = [
        Correction(reviewer=who, kind="span", turn=name, time_s=time_s, end_s=end_s)
        for who, time_s, end_s in corrections
    ]
    corrected = apply_corrections(sample, made)
    assert not corrected.unusable
    return corrected.sample


def times(sample: Sample) -> tuple[float, float | None, float | None]:
    (turn,) = sample.turns
    return turn.time_s, turn.end_s, turn.related_end_s


def test_both_ends_of_a_reply_span_are_corrected_and_none_makes_an_instant() -> None:
    assert times(spanned(("ann", 2.0, 6.0))) == (2.0, 6.0, None)
    assert times(spanned(("ann", 1.5, 6.0), ("ann", 1.5, 3.0))) == (1.5, 3.0, None)
    assert times(spanned(("ann", 2.0, None))) == (2.0, None, None)
    assert times(spanned(("ann", 2.0, 3.0), related_end_s=3.5)) == (2.0, 3.0, 3.0)
    assert times(spanned(("ann", 2.0, None), related_end_s=3.5)) == (2.0, None, None)


def test_reviewers_who_want_different_ends_keep_the_source() -> None:
    assert times(spanned(("ann", 2.0, 6.0), ("bob", 2.0, 5.0))) == (2.0, 4.0, None)
    assert times(spanned(("ann", 2.0, 6.0), ("bob", 2.0, 6.0))) == (2.0, 6.0, None)
