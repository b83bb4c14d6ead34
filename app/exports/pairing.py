"""Match equal or similar items of two lists in O(n log n)."""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

H = TypeVar("H", bound=Hashable)


def match_equal(old: Mapping[int, H], new: Mapping[int, H]) -> list[tuple[int, int]]:
    """Return pairs of keys with equal values; each key occurs once, and the first old key gets the first new one."""
    keys_by_value: dict[H, list[int]] = defaultdict(list)
    for key, value in reversed(list(new.items())):
        keys_by_value[value].append(key)
    return [(key, keys_by_value[value].pop()) for key, value in old.items() if keys_by_value.get(value)]


def match_nearest(old: Mapping[int, tuple[str, int]], new: Mapping[int, tuple[str, int]]) -> list[tuple[int, int]]:
    """Return pairs of keys with the same text, greedily by distance in time; each key occurs once.

    Args:
        old: Text and start in milliseconds, by key.
        new: The same for the new items.
    """
    groups: dict[str, list[_Point]] = defaultdict(list)
    for is_new, items in enumerate((old, new)):
        for key, (text, start_ms) in items.items():
            groups[text].append(_Point(start_ms, bool(is_new), key))
    return [pair for points in groups.values() for pair in _match_on_line(sorted(points))]


class _Point(NamedTuple):
    start_ms: int
    is_new: bool
    key: int


def _match_on_line(points: list[_Point]) -> Iterator[tuple[int, int]]:
    """Yield the keys of old and new points, nearest pair first.

    The nearest pair of an old and a new point is always adjacent: a point between them would be nearer to one of them.
    So a heap of adjacent pairs suffices. Removing a pair makes the points around it adjacent, as in a linked list.
    Example: old 0, new 4, old 5, new 9 gives (5, 4) and then (0, 9).
    """
    previous, following = list(range(-1, len(points) - 1)), list(range(1, len(points) + 1))
    is_free = [True] * len(points)
    heap: list[tuple[int, int, int, int, int]] = []  # distance, old key, new key, indices of the left and right point

    def push(left: int, right: int) -> None:
        if left >= 0 and right < len(points) and points[left].is_new != points[right].is_new:
            first, second = points[left], points[right]
            i, j = (second.key, first.key) if first.is_new else (first.key, second.key)
            heapq.heappush(heap, (second.start_ms - first.start_ms, i, j, left, right))

    for left in range(len(points) - 1):
        push(left, left + 1)
    while heap:
        _, i, j, left, right = heapq.heappop(heap)
        if is_free[left] and is_free[right]:
            is_free[left] = is_free[right] = False
            yield i, j
            outer_left, outer_right = previous[left], following[right]
            if outer_left >= 0:
                following[outer_left] = outer_right
            if outer_right < len(points):
                previous[outer_right] = outer_left
            push(outer_left, outer_right)
