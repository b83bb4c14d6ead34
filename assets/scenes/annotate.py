"""The reference dialogue of a scene: updates, responses, questions and their answers.

Times are on the 2 fps grid, at the first sampled frame that shows the change: a change at 3.1 s is labelled at 3.5 s.
At equal times, updates come first (completions before starts), then the user, then one sentence of the assistant.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from stepscope.assets.scenes.scene import FPS, Scene
from stepscope.assets.scenes.script import Cause
from stepscope.engine.dialogue import TRANSITIONS, StepState
from stepscope.engine.records import Step

Role = Literal["update", "user", "assistant"]

USER_GAP_S: Final = 1.5
"""Minimum time between a user turn and all turns except its own answer."""
_RANKS: Final = {"update": 0, "user": 1, "assistant": 2}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneTurn:
    """One turn of the reference dialogue."""

    time_s: float
    """A multiple of 0.5."""
    role: Role
    text: str
    """The sentence, or an update such as ``S3->complete``."""
    cause: Cause | None
    """The difficulty that makes this turn hard to predict; None for an easy turn."""


def annotate(scene: Scene, *, num_questions: int | None = None) -> tuple[SceneTurn, ...]:
    """Return all turns of a scene in order; the result is deterministic.

    Half of the scenes have one or two user questions, unless ``num_questions`` is given.
    """
    turns = [_say(0.0, introduce(_progress(scene, 0.0)), None)]
    for time_s in sorted({_grid(event.time_s) for event in scene.events}):
        turns += _turns_at(scene, time_s)
    turns += _ask(scene, [turn.time_s for turn in turns], num_questions)
    return tuple(sorted(turns, key=lambda turn: (turn.time_s, _RANKS[turn.role])))


def prompt_state(scene: Scene, time_s: float) -> dict[str, StepState]:
    """Return the state of every step, by id in recipe order, after all updates before ``time_s``."""
    state: dict[str, StepState] = {step.id: "not_started" for step in scene.steps}
    for event in scene.events:
        if _grid(event.time_s) < time_s and event.kind in TRANSITIONS:
            _, state[scene.steps[event.part].id] = TRANSITIONS[event.kind]
    return state


def _grid(time_s: float) -> float:
    return math.ceil(time_s * FPS) / FPS


def _say(time_s: float, text: str, cause: Cause | None) -> SceneTurn:
    return SceneTurn(time_s=time_s, role="assistant", text=text, cause=cause)


def _turns_at(scene: Scene, time_s: float) -> list[SceneTurn]:
    events = [event for event in scene.events if _grid(event.time_s) == time_s]
    turns = []
    for event in sorted(events, key=lambda event: event.kind):  # completions before starts
        if event.kind in TRANSITIONS:
            text = f"{scene.steps[event.part].id}->{event.kind}"
            turns.append(SceneTurn(time_s=time_s, role="update", text=text, cause=event.cause))
    after = _progress(scene, time_s + 1 / FPS)
    for event in events:
        if event.kind == "complete":
            turns.append(_say(time_s, praise(after), event.cause))
        elif event.kind in WARNINGS:
            text = WARNINGS[event.kind].format(scene.parts[event.part].noun)
            turns.append(_say(time_s, text, event.cause))
    return turns


def _progress(scene: Scene, time_s: float) -> Progress:
    nouns = [part.noun for part in scene.parts if part.step is not None]
    return Progress(goal=scene.family, steps=scene.steps, nouns=nouns, state=prompt_state(scene, time_s))


def _ask(scene: Scene, busy: list[float], num_questions: int | None) -> list[SceneTurn]:
    """Return user questions with their answers, at least ``USER_GAP_S`` away from the ``busy`` times."""
    rng = np.random.default_rng([scene.seed, 4])
    count = int(rng.integers(1, 3)) if rng.random() < 0.5 else 0
    turns: list[SceneTurn] = []
    for _ in range(count if num_questions is None else num_questions):
        taken = busy + [turn.time_s for turn in turns]
        times = [frame / FPS for frame in range(int(3 * FPS), scene.num_frames - int(FPS))]
        free = [time_s for time_s in times if min(abs(time_s - other) for other in taken) >= USER_GAP_S]
        question = QUESTIONS[int(rng.integers(len(QUESTIONS)))]
        if free:
            time_s = free[int(rng.integers(len(free)))]
            turns.append(SceneTurn(time_s=time_s, role="user", text=question, cause=None))
            turns.append(_say(time_s, answer(question, _progress(scene, time_s)), None))
    return turns
