"""Sentences of the demo assistant: each is determined by the steps and their states.

``steps`` are in recipe order and ``nouns`` name their parts; ``state`` maps step ids to states, as in
``engine.dialogue``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stepscope.engine.records import Step

QUESTIONS: Final = ("What is next?", "Did I do that right?", "How many steps are left?")
WARNINGS: Final = {"drop": "Careful, pick up the {} again.", "decoy": "Put the {} back, it is not needed."}
"""Instruction by kind of event, with a place for the noun."""
_COUNTS: Final = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a task."""

    goal: str
    steps: Sequence[Step]
    nouns: Sequence[str]
    state: Mapping[str, str]

    def indices(self, state: str) -> list[int]:
        """Return the indices of the steps with a state."""
        return [index for index, step in enumerate(self.steps) if self.state[step.id] == state]


def introduce(progress: Progress) -> str:
    """Return the introduction, with the goal and the first step."""
    return f"Let's build the {progress.goal}. First, {progress.steps[0].name}."


def praise(progress: Progress) -> str:
    """Return the sentence after a completed step, with the next step."""
    held, waiting = progress.indices("in_progress"), progress.indices("not_started")
    if held:
        return f"Good. You already have the {progress.nouns[held[0]]}."
    if waiting:
        return f"Good. Now {progress.steps[waiting[0]].name}."
    return f"Well done, the {progress.goal} is finished."


def answer(question: str, progress: Progress) -> str:
    """Return the answer to one of ``QUESTIONS``."""
    match question:
        case "What is next?":
            return _answer_next(progress)
        case "Did I do that right?":
            return _answer_right(progress)
        case _:
            left = len(progress.steps) - len(progress.indices("completed"))
            return f"{_COUNTS[left]} step is left." if left == 1 else f"{_COUNTS[left]} steps are left."


def _answer_next(progress: Progress) -> str:
    held, waiting = progress.indices("in_progress"), progress.indices("not_started")
    if held and waiting:
        return f"Finish the {progress.nouns[held[0]]}, then {progress.steps[waiting[0]].name}."
    if held:
        return f"Only the {progress.nouns[held[0]]} is left."
    if waiting:
        return f"Next, {progress.steps[waiting[0]].name}."
    return f"Nothing, the {progress.goal} is finished."


def _answer_right(progress: Progress) -> str:
    done = progress.indices("completed")
    if not done:
        return "You have not finished a step yet."
    skipped = [index for index in range(done[-1]) if index not in done]
    if skipped:
        return f"Not quite, the {progress.nouns[skipped[0]]} comes first."
    return f"Yes, the {progress.nouns[done[-1]]} is in place."
