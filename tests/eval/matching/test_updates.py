from collections.abc import Iterable

import pytest

from stepscope.eval.matching.updates import TimedUpdate, match_updates

Timed = Iterable[tuple[int, str]]


def pairs(gen: Timed, ref: Timed, *, reach: int = 5) -> list[tuple[int, int]]:
    sides = [[TimedUpdate(frame_index=frame, text=text) for frame, text in side] for side in (gen, ref)]
    links = match_updates(sides[0], sides[1], match_window=(-reach, reach))
    return [(link.gen_index, link.ref_index) for link in links]


def test_updates_are_paired_by_text_before_time_and_one_to_one() -> None:
    # two updates at one frame, written in the other order
    assert pairs([(4, "S2->start"), (4, "S1->complete")], [(4, "S1->complete"), (4, "S2->start")]) == [(0, 1), (1, 0)]
    # the same update twice: the nearer stands for the reference
    assert pairs([(1, "S1->start"), (3, "S1->start")], [(4, "S1->start")]) == [(1, 0)]
    # exact 3 frames away costs 0.3 * (3/5)^1.5 = 0.14, the same step at the frame 0.5
    assert pairs([(4, "S1->complete"), (1, "S1->start")], [(4, "S1->start")]) == [(1, 0)]
    # the same step 2 frames away costs 0.5 + 0.3 * (2/5)^1.5 = 0.58, another step at the frame 1
    assert pairs([(4, "S2->start"), (2, "S1->complete")], [(4, "S1->start")]) == [(1, 0)]
    # one exact pair and one alone (0.08 + 1) cost less than two pairs of the same step (0.71 + 0.64)
    gen, ref = [(0, "S1->complete"), (6, "S1->start")], [(4, "S1->start"), (9, "S1->complete")]
    assert pairs(gen, ref) == [(1, 0)]
    # what is left is paired too, but never instead of an exact pair: 0 can only reach the reference of 1
    assert pairs([(0, "S2->start"), (6, "S1->start")], [(4, "S1->start"), (9, "S3->start")]) == [(1, 0)]
    assert pairs([(4, "S2->start")], [(6, "S1->start")]) == [(0, 0)]
    assert pairs([(4, "S1 is done")], [(4, "S1->start")]) == []
    assert pairs([], [(4, "S1->start")]) == pairs([(4, "S1->start")], []) == pairs([], []) == []
    with pytest.raises(ValueError, match="match_window must be"):
        pairs([], [], reach=-1)
