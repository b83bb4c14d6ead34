"""Corrections of reply spans."""

from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.annotations.corrections import Correction, name_turns
from stepscope.eval.data.samples import Sample, Turn


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


def test_a_span_is_of_an_assistants_turn_and_inside_the_video() -> None:
    turns = (Turn(time_s=2.0, role="assistant", text="Now."), Turn(time_s=3.0, role="user", text="When?"))
    sample = Sample(
        video_id="v", video_path=None, fps=2.0, num_frames=20, goal="", steps=(), turns=turns, initial_state={}
    )
    said, asked = name_turns(turns)
    for name, time_s, end_s, words in (
        (asked, 3.0, 4.0, "only a turn of the assistant"),
        (said, 2.0, 2.0, "must end after its start, 2 s, and at most at 10 s; got 2"),
        (said, 2.0, 10.5, "got 10.5"),
        (said, None, 3.0, "a time must be within the video"),
    ):
        correction = Correction(reviewer="ann", kind="span", turn=name, time_s=time_s, end_s=end_s)
        (found,) = apply_corrections(sample, [correction]).unusable
        assert words in found.reason
