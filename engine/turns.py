"""The order of a queue that several users share."""

from collections import Counter
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TypeVar

T = TypeVar("T")


def take_turns(waiting: Iterable[T], owner: Callable[[T], str], *, served: Iterable[str] = ()) -> list[T]:
    """Return what waits in turns: the first of each owner, then the second of each.

    ``served`` are the owners of what is being done: it counts as their first.
    """
    earlier = Counter(served)
    turns: list[tuple[int, T]] = []
    for item in waiting:
        turns.append((earlier[name := owner(item)], item))
        earlier[name] += 1
    return [item for _, item in sorted(turns, key=itemgetter(0))]
