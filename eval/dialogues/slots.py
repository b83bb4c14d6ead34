"""When a dialogue speaks about a video, and what may be said then: slots without words, from steps and updates alone.

The assistant's slots follow from the updates so far, the recipe and the goal: a dialogue over the first minute of a
video begins that over the whole. Only times need the future, those of reply spans and of questions.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final, Literal

from stepscope.engine.dialogue import apply_update, initial_state, parse_update
from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.samples import Sample, Turn, turn_order

Question = Literal["next", "done", "left"]
QUESTIONS: Final[tuple[Question, ...]] = ("next", "done", "left")
QUIET_S: Final = 1.5
"""Shortest time between a question and every other turn."""
MAX_LISTED: Final = 3
"""Completed steps that an answer lists; of more it names the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known after the updates of a frame."""

    time_s: float
    """Time of the last of them."""
    frame: int
    """-1 before the video."""
    started: tuple[Step, ...] = ()
    finished: tuple[Step, ...] = ()
    mistakes: tuple[tuple[Step, str], ...] = ()
    """Steps that are finished at this frame and went wrong, each with its cause."""
    completed: tuple[Step, ...]
    """All completed steps, in the order of completion."""
    open: tuple[Step, ...]
    """Steps in progress, in the order of their starts."""
    ready: tuple[Step, ...]
    """Steps that can start now, in the order of the recipe."""
    num_left: int
    """Steps that are not completed."""
    known: frozenset[str]
    """Ids of the steps that may be named, and the causes of mistakes so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One turn without its words."""

    time_s: float
    role: Literal["user", "assistant"]
    kind: Literal["goal", "opening", "progress", "summary", "question"]
    moment: Moment
    end_s: float | None = None
    """End of the reply span; None for an instant."""
    begun: Step | None = None
    """Step that starts at this frame and that the assistant has not named as the next one."""
    question: Question | None = None
    """What the user asks, and the assistant answers."""
    is_last: bool = False
    """Whether the dialogue ends here with a summary."""

    @property
    def required(self) -> tuple[Step, ...]:
        """Steps that the text must name."""
        if self.role == "user" or self.question == "left" or self.kind == "summary":
            return ()
        if self.question == "done":
            completed = self.moment.completed
            return completed if len(completed) <= MAX_LISTED else completed[-1:]
        return (self.begun,) if self.begun is not None else self.moment.open[-1:] or self.moment.ready[:1]

    @property
    def known(self) -> frozenset[str]:
        """Ids of the steps, and mistakes, that the text may name."""
        if self.question == "done":
            return frozenset(step.id for step in self.moment.completed)
        return self.moment.known


def list_ready(sample: Sample, state: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps that can start: those whose predecessors are completed; without a graph, the next in order."""
    waiting = [step for step in sample.steps if state[step.id] == "not_started"]
    if not sample.after:
        return tuple(waiting[:1])
    return tuple(step for step in waiting if all(state[one] == "completed" for one in sample.after.get(step.id, ())))


def follow_updates(sample: Sample) -> Iterator[Moment]:
    """Yield the moment before the video, and that of each frame with updates."""
    names = {step.id: step for step in sample.steps}
    state: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)
    completed = [step for step in sample.steps if state[step.id] == "completed"]
    opened = [step for step in sample.steps if state[step.id] == "in_progress"]
    causes = set[str]()
    groups = groupby(
        (turn for turn in sample.turns if turn.role == "update"), key=lambda turn: frame_at(turn.time_s, sample.fps)
    )
    for frame, group in [(-1, []), *((frame, list(group)) for frame, group in groups)]:
        started, finished, mistakes = list[Step](), list[Step](), list[tuple[Step, str]]()
        for turn in group:
            update = parse_update(turn.text)
            assert update is not None
            step, is_start = names[update.step_id], update.transition == "start"
            state = apply_update(state, turn.text).state
            completed = [one for one in completed if one != step] + [step] * (not is_start)
            opened = [one for one in opened if one != step] + [step] * is_start
            (started if is_start else finished).append(step)
            if turn.cause and not is_start:
                mistakes.append((step, turn.cause))
                causes.add(turn.cause)
        ready = list_ready(sample, state)
        yield Moment(
            time_s=group[-1].time_s if group else 0.0,
            frame=frame,
            started=tuple(started),
            finished=tuple(finished),
            mistakes=tuple(mistakes),
            completed=tuple(completed),
            open=tuple(opened),
            ready=ready,
            num_left=len(sample.steps) - len(completed),
            known=frozenset(causes.union(step.id for step in (*completed, *opened, *ready))),
        )


def plan_dialogue(sample: Sample, *, rate: float, num_questions: int | None = None) -> tuple[Slot, ...]:
    """Return the slots of a video in the order of time.

    ``rate`` is the chance of a user's question per step; ``num_questions`` is their number instead. There are fewer if
    the video has too few quiet frames. The result depends on nothing but the sample and the arguments.
    """
    moments = list(follow_updates(sample))
    first = next(moment for moment in reversed(moments) if moment.frame <= 0)
    slots = [Slot(time_s=0.0, role="user", kind="goal", moment=first)] if sample.goal.strip() else []
    slots.append(Slot(time_s=first.time_s, role="assistant", kind="opening", moment=first))
    slots += filter(None, (_react(before, moment) for before, moment in pairwise(moments) if moment.frame > 0))
    last, last_frame = slots[-1], sample.num_frames - 1
    if frame_at(last.time_s, sample.fps) == last_frame:
        slots[-1] = replace(last, is_last=True)
    elif not last.is_last:
        end_s = last_frame / sample.fps
        slots.append(Slot(time_s=end_s, role="assistant", kind="summary", moment=moments[-1], is_last=True))
    slots = _with_spans(slots, moments)
    rng = random.Random(sample.video_id)
    count = sum(rng.random() < rate for _ in sample.steps) if num_questions is None else num_questions
    slots += _ask(sample, slots, moments, count, rng)
    return tuple(sorted(slots, key=lambda slot: (slot.time_s, slot.role == "assistant")))


def build_turns(sample: Sample, slots: Sequence[Slot], texts: Sequence[str]) -> tuple[Turn, ...]:
    """Return the sample's updates with the dialogue in order; a correction has the cause of its mistake."""
    turns = [turn for turn in sample.turns if turn.role == "update"]
    for slot, text in zip(slots, texts, strict=True):
        cause = slot.moment.mistakes[0][1] if slot.kind == "progress" and slot.moment.mistakes else None
        turns.append(Turn(time_s=slot.time_s, role=slot.role, text=text, end_s=slot.end_s, cause=cause))
    return tuple(sorted(turns, key=turn_order))


def _react(before: Moment, moment: Moment) -> Slot | None:
    """Return what the assistant says at a frame with updates; None if a step starts that it named already."""
    named = () if before.open else before.ready[:1]  # when the step before it was completed
    begun = next((step for step in reversed(moment.started) if step not in named and step in moment.open), None)
    if not moment.finished and begun is None:
        return None
    is_last = not moment.num_left
    return Slot(time_s=moment.time_s, role="assistant", kind="progress", moment=moment, begun=begun, is_last=is_last)


def _with_spans(slots: Sequence[Slot], moments: Sequence[Moment]) -> list[Slot]:
    """Return the slots with reply spans: from a completion to the next start, or to the assistant's next turn."""
    stops = sorted({moment.time_s for moment in moments if moment.started} | {slot.time_s for slot in slots})
    following = dict(pairwise(stops))
    has_span = {slot.time_s for slot in slots if slot.kind == "progress" and not slot.moment.open}
    return [replace(one, end_s=following.get(one.time_s)) if one.time_s in has_span else one for one in slots]


def _ask(
    sample: Sample, slots: Sequence[Slot], moments: Sequence[Moment], count: int, rng: random.Random
) -> Iterator[Slot]:
    """Yield questions and their answers at quiet frames, outside of reply spans."""
    is_quiet, gap = bytearray(b"\1") * sample.num_frames, QUIET_S * sample.fps

    def occupy(start_s: float, end_s: float) -> None:
        first = max(0, int(start_s * sample.fps - gap) + 1)
        end = max(first, min(sample.num_frames, math.ceil(end_s * sample.fps + gap)))
        is_quiet[first:end] = bytes(end - first)

    for slot in slots:
        occupy(slot.time_s, slot.end_s or slot.time_s)
    for moment in moments:
        occupy(moment.time_s, moment.time_s)
    frames = [frame for frame in range(sample.num_frames) if is_quiet[frame]]
    rng.shuffle(frames)
    for frame in frames:
        if count and is_quiet[frame]:
            count -= 1
            time_s = frame / sample.fps
            occupy(time_s, time_s)
            moment = next(moment for moment in reversed(moments) if moment.frame <= frame)
            asked = Slot(time_s=time_s, role="user", kind="question", moment=moment, question=rng.choice(QUESTIONS))
            yield from (asked, replace(asked, role="assistant"))
