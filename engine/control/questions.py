"""Tokens behind a frame that are read and taken back: the questions of ``answer``, and texts of states."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stepscope.engine.config import StreamConfig
from stepscope.engine.control.prompt_codec import PromptCodec
from stepscope.engine.control.requests import Decision
from stepscope.engine.decisions.signals import RESPONSE, SILENCE, list_states
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


def decide_by_answers(answers: Sequence[float]) -> Decision:
    """Return the decision for the probabilities of yes: whether to speak, then about updates."""
    speak_prob, *probs = answers
    return Decision(speak_prob=speak_prob, update_prob=max(probs, default=0.0), answers=tuple(probs))


class StateReader:
    """The states of a stream: their ids behind a frame, and the decision for their log-probabilities.

    The model writes its state at each frame, as the published programs do, so that a silent frame is a turn, too::

        # <opening> </Silence> <eos> # <opening> </Response> Now the roof. <eos> #

    Raises ``ValueError`` if the codec takes no states.
    """

    def __init__(self, config: StreamConfig, codec: PromptCodec) -> None:
        self._states = list_states(config.policy, config.states)
        self.branches = tuple((*codec.response_opening, *codec.state(text)) for text in self._states.values())
        """The ids of each state behind an image."""
        closing = ((codec.eos_id,) if codec.feeds_eos else ()) + codec.stream_opening
        self.separators = {
            name: (*ids, *closing) for name, ids in zip(self._states, self.branches, strict=True) if name != RESPONSE
        }
        """The tokens between an image and the next in each silent state."""
        self.codec = copy.copy(codec)
        """The codec with the states in the openings of turns."""
        self.codec.frame_separator = self.separators[SILENCE]
        if RESPONSE in self._states:
            self.codec.response_opening = self.branches[list(self._states).index(RESPONSE)]

    def decide(self, logprobs: Sequence[float]) -> Decision:
        """Return the decision for the log-probability of each state.

        Worked example: ln .1 for silence, ln .3 for standby and ln .2 for response are 1/6, 1/2 and 1/3 of all states.
        The probability of speaking is .2 / (.2 + .3) = .4.
        """
        by_name = dict(zip(self._states, logprobs, strict=True))
        if len(by_name) == 1:
            return Decision(speak_prob=-math.expm1(by_name[SILENCE]), update_prob=0.0)
        highest = max(logprobs)
        weights = [math.exp(logprob - highest) for logprob in logprobs]
        rival = max(logprob for name, logprob in by_name.items() if name != RESPONSE)
        return Decision(
            speak_prob=_sigmoid(by_name[RESPONSE] - rival),
            update_prob=0.0,
            answers=tuple(weight / sum(weights) for weight in weights),
        )

    def signals(self, decision: Decision) -> dict[str, float]:
        """Return the probability of each state; none without alternatives."""
        return dict(zip(self._states, decision.answers, strict=True)) if decision.answers else {}

    def find_silent_state(self, decision: Decision) -> str:
        """Return the most likely state other than the response."""
        signals = self.signals(decision)
        return max(self.separators, key=lambda name: signals.get(name, 0.0))


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))
