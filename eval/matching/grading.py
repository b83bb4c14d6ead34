"""Grades of replies against gold answers: 0 wrong, 1 partly right, 2 right.

The default is offline: ``CosineBands``. ``eval.served.judge`` asks a served model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from stepscope.eval.matching.turns import Encode, compare_texts

PARTLY_RIGHT: Final = 0.5
RIGHT: Final = 0.8
MAX_GRADE: Final = 2
COSINE_JUDGE: Final = f"cosine bands {PARTLY_RIGHT:g}/{RIGHT:g}"
"""Name of the default judge in files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply to grade."""

    question: str
    """The first message of the user; empty if there is none."""
    gold: str
    text: str


Grade = Callable[[Sequence[Reply]], Sequence[int]]
"""Replies to their grades, each 0, 1 or 2."""


class RememberedGrades:
    """A judge that grades equal replies once."""

    def __init__(self, grade: Grade) -> None:
        self._grade, self._known = grade, dict[Reply, int]()

    def __call__(self, replies: Sequence[Reply]) -> list[int]:
        """Return the grade of each reply."""
        new = [reply for reply in dict.fromkeys(replies) if reply not in self._known]
        self._known.update(zip(new, self._grade(new), strict=True))
        return [self._known[reply] for reply in replies]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedJudge:
    """A judge with the name that files record."""

    name: str
    grade: Grade


@dataclass(frozen=True, slots=True)
class CosineBands:
    """Grades by the cosine of reply and gold answer: below 0.5 wrong, below 0.8 partly right, else right."""

    encode: Encode

    def __call__(self, replies: Sequence[Reply]) -> list[int]:
        """Return the grade of each reply."""
        if not replies:
            return []
        cosines = compare_texts([(reply.text, reply.gold) for reply in replies], self.encode)
        return [int(cosine >= PARTLY_RIGHT) + int(cosine >= RIGHT) for cosine in cosines]
