"""The questions of the policy ``answer``: asked behind a frame, answered by yes or no, and then taken back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stepscope.engine.records import Step

SPEAK_QUESTION: Final = "Should you say something to the user now? Answer yes or no."
START_QUESTION: Final = 'Has the user started the step "{name}"? Answer yes or no.'
COMPLETE_QUESTION: Final = 'Has the user completed the step "{name}"? Answer yes or no.'
STEP_QUESTIONS: Final = (START_QUESTION, COMPLETE_QUESTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateQuestion:
    """A question whose answer is an update of the state."""

    text: str
    update: str
    """The update that yes means, such as ``S3->complete``."""


def list_update_questions(steps: Sequence[Step], state: Mapping[str, str]) -> list[UpdateQuestion]:
    """Return a question for each step in progress, and for the next one that was not started.

    Example: with S1 completed, S2 in progress, and S3 and S4 not started, ``S2->complete`` and ``S3->start`` are asked.
    """
    asked = [
        UpdateQuestion(text=COMPLETE_QUESTION.format(name=step.name), update=f"{step.id}->complete")
        for step in steps
        if state[step.id] == "in_progress"
    ]
    waiting = next((step for step in steps if state[step.id] == "not_started"), None)
    if waiting is not None:
        asked.append(UpdateQuestion(text=START_QUESTION.format(name=waiting.name), update=f"{waiting.id}->start"))
    return asked
