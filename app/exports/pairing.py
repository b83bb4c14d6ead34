"""Pairs of things that are alike, in time that grows with their number and not with its square."""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

H = TypeVar("H", bound=Hashable)


def pair_equal(old: Mapping[int, H], new: Mapping[int, H]) -> list[tuple[int, int]]:
    """Return the keys of pairs of equal values, each in one pair; of equal ones the first with the first."""
    waiting: dict[H, list[int]] = defaultdict(list)
    for place, value in reversed(list(new.items())):
        waiting[value].append(place)
    return [(place, waiting[value].pop()) for place, value in old.items() if waiting.get(value)]


def pair_nearest(old: Mapping[int, tuple[str, int]], new: Mapping[int, tuple[str, int]]) -> list[tuple[int, int]]:
    """Return the keys of pairs of one text, each in one pair, the nearest in time first.

    Args:
        old: Text and milliseconds by key.
        new: The same of the others.
    """
    groups: dict[str, list[_Point]] = defaultdict(list)
    for is_new, said in enumerate((old, new)):
        for place, (text, start_ms) in said.items():
            groups[text].append(_Point(start_ms, bool(is_new), place))
    return [pair for points in groups.values() for pair in _pair_on_line(sorted(points))]


class _Point(NamedTuple):
    start_ms: int
    is_new: bool
    place: int


def _pair_on_line(points: list[_Point]) -> Iterator[tuple[int, int]]:
    """Yield the places of old and new points, the nearest first.

    The nearest pair always stands side by side, since a point between would be nearer to one of both. So the pairs
    that wait are those of neighbours, and a pair that is taken makes neighbours of the points around it.
    """
    before, after = list(range(-1, len(points) - 1)), list(range(1, len(points) + 1))
    is_free = [True] * len(points)
    waiting: list[tuple[int, int, int, int, int]] = []

    def wait(left: int, right: int) -> None:
        if left >= 0 and right < len(points) and points[left].is_new != points[right].is_new:
            one, other = points[left], points[right]
            i, j = (other.place, one.place) if one.is_new else (one.place, other.place)
            heapq.heappush(waiting, (other.start_ms - one.start_ms, i, j, left, right))

    for left in range(len(points) - 1):
        wait(left, left + 1)
    while waiting:
        _, i, j, left, right = heapq.heappop(waiting)
        if is_free[left] and is_free[right]:
            is_free[left] = is_free[right] = False
            yield i, j
            outer_left, outer_right = before[left], after[right]
            if outer_left >= 0:
                after[outer_left] = outer_right
            if outer_right < len(points):
                before[outer_right] = outer_left
            wait(outer_left, outer_right)
