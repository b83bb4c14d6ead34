"""When a dialogue speaks about a video, and what may be said then: slots without words, from steps and updates alone.

The assistant's slots follow from the updates so far, the recipe and the goal: a dialogue over the first minute of a
video begins that over the whole. Only times need the future, those of reply spans and of questions.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, islice, pairwise
from typing import Final, Literal, get_args

from stepscope.engine.dialogue import STATES, TRANSITIONS, initial_state, parse_update
from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.samples import Sample, Turn, turn_order

Question = Literal["next", "done", "left"]
QUIET_S: Final = 1.5
"""Shortest time between a question and every other turn."""
MAX_LISTED: Final = 3
"""Completed steps that an answer lists; of more it names the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """What is known after the updates of a frame."""

    time_s: float
    frame: int
    """-1 before the video."""
    started: tuple[Step, ...]
    finished: tuple[Step, ...]
    mistakes: tuple[tuple[Step, str], ...]
    """Those of the finished steps that went wrong, each with its cause."""
    open: tuple[Step, ...]
    """Steps in progress, in the order of their starts."""
    next: Step | None
    """The first step of the recipe that can start now; None if there is none."""
    last_done: tuple[Step, ...]
    """The latest completed steps, at most ``MAX_LISTED``, in the order of completion."""
    num_done: int
    num_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The course of a video: its moments, and from which frame on something is known or done; inf if never."""

    moments: tuple[TaskProgress, ...]
    """The moment before the video, and that of each frame with updates."""
    known_at: Mapping[str, float]
    """Of each step by its id, and of each cause of a mistake: a step is known when it can start, or starts."""
    done_at: Mapping[str, float]

    def at(self, frame: int) -> TaskProgress:
        """Return the latest moment up to a frame."""
        return self.moments[bisect_right(self.moments, frame, key=lambda moment: moment.frame) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One turn without its words."""

    time_s: float
    role: Literal["user", "assistant"]
    kind: Literal["goal", "opening", "progress", "summary", "question"]
    moment: TaskProgress
    end_s: float | None = None
    """End of the reply span; None for an instant."""
    begun: Step | None = None
    """Step that starts at this frame and that the assistant has not named as the next one."""
    question: Question | None = None
    is_last: bool = False
    """Whether the dialogue ends here with a summary."""

    @property
    def required(self) -> tuple[Step, ...]:
        """Steps that the text must name."""
        moment = self.moment
        if self.role == "user" or self.question == "left" or self.kind == "summary":
            return ()
        if self.question == "done":
            return moment.last_done if moment.num_done <= MAX_LISTED else moment.last_done[-1:]
        following = self.begun or (moment.open[-1] if moment.open else moment.next)
        return (following,) if following else ()


def follow_updates(sample: Sample) -> Course:
    """Return the course of a video by its updates. Without a graph, a step can start when all before it have."""
    updates = [
        (frame_at(turn.time_s, sample.fps), turn, update)
        for turn in sample.turns
        if turn.role == "update" and (update := parse_update(turn.text)) is not None
    ]
    state = initial_state(sample.steps, sample.initial_state)
    # -1 is before the first frame, inf is never.
    begun_at = {step_id: math.inf if value == "not_started" else -1.0 for step_id, value in state.items()}
    done_at = {step_id: -1.0 if value == "completed" else math.inf for step_id, value in state.items()}
    causes = dict[str, float]()
    for frame, turn, update in reversed(updates):
        begun_at[update.step_id] = min(begun_at[update.step_id], frame)
        if update.transition == "complete":
            done_at[update.step_id] = min(done_at[update.step_id], frame)
            causes |= {turn.cause: frame} if turn.cause else {}
    if sample.after:
        ready_at = [max((done_at[one] for one in sample.after.get(step, ())), default=-1.0) for step in state]
    else:
        ready_at = list(accumulate(begun_at.values(), max, initial=-1.0))[:-1]
    known_at = {step: min(ready, begun_at[step]) for step, ready in zip(state, ready_at, strict=True)}
    names = {step.id: step for step in sample.steps}
    by_state = {value: {step: names[step] for step in state if state[step] == value} for value in STATES}
    opened, completed = by_state["in_progress"], by_state["completed"]
    moments = list[TaskProgress]()
    groups = [(frame, list(group)) for frame, group in groupby(updates, key=lambda one: one[0])]
    for frame, group in [(-1, []), *groups]:
        for _, _, update in group:
            for steps in by_state.values():
                steps.pop(update.step_id, None)
            by_state[TRANSITIONS[update.transition][1]][update.step_id] = names[update.step_id]
        ends = [(names[update.step_id], turn) for _, turn, update in group if update.transition == "complete"]
        moments.append(
            TaskProgress(
                time_s=group[-1][1].time_s if group else 0.0,
                frame=frame,
                started=tuple(names[one.step_id] for _, _, one in group if one.transition == "start"),
                finished=tuple(step for step, _ in ends),
                mistakes=tuple((step, turn.cause) for step, turn in ends if turn.cause),
                open=tuple(opened.values()),
                next=next((step for step in by_state["not_started"].values() if known_at[step.id] <= frame), None),
                last_done=tuple(islice(reversed(completed.values()), MAX_LISTED))[::-1],
                num_done=len(completed),
                num_left=len(names) - len(completed),
            )
        )
    return Course(moments=tuple(moments), known_at={**causes, **known_at}, done_at=done_at)


def plan_dialogue(sample: Sample, *, rate: float, num_questions: int | None = None) -> tuple[Slot, ...]:
    """Return the slots of a video in the order of time; equal arguments give equal slots.

    ``rate`` is the chance of a user's question per step; ``num_questions`` is their number instead. There are fewer if
    the video has too few quiet frames.
    """
    course, last_frame = follow_updates(sample), sample.num_frames - 1
    first = course.at(0)
    slots = [Slot(time_s=0.0, role="user", kind="goal", moment=first)] if sample.goal.strip() else []
    slots.append(Slot(time_s=first.time_s, role="assistant", kind="opening", moment=first))
    slots += filter(None, (_react(before, moment) for before, moment in pairwise(course.moments) if moment.frame > 0))
    moment, end_s = course.moments[-1], last_frame / sample.fps
    if not moment.num_left or frame_at(slots[-1].time_s, sample.fps) == last_frame:
        slots[-1] = replace(slots[-1], is_last=True)
    else:
        slots.append(Slot(time_s=end_s, role="assistant", kind="summary", moment=moment, is_last=True))
    slots = _with_spans(slots, course)
    rng = random.Random(sample.video_id)
    count = sum(rng.random() < rate for _ in sample.steps) if num_questions is None else num_questions
    slots += _ask(sample, slots, course, count, rng)
    return tuple(sorted(slots, key=lambda slot: (slot.time_s, slot.role == "assistant")))


def build_turns(sample: Sample, slots: Sequence[Slot], texts: Sequence[str]) -> tuple[Turn, ...]:
    """Return the sample's updates with the dialogue in order; a correction has the cause of its mistake."""
    turns = [turn for turn in sample.turns if turn.role == "update"]
    for slot, text in zip(slots, texts, strict=True):
        cause = slot.moment.mistakes[0][1] if slot.kind == "progress" and slot.moment.mistakes else None
        turns.append(Turn(time_s=slot.time_s, role=slot.role, text=text, end_s=slot.end_s, cause=cause))
    return tuple(sorted(turns, key=turn_order))


def _react(before: TaskProgress, moment: TaskProgress) -> Slot | None:
    """Return what the assistant says at a frame with updates; None if a step starts that it named already."""
    named = None if before.open else before.next  # when the step before it was completed
    begun = next((step for step in reversed(moment.started) if step != named and step in moment.open), None)
    if not moment.finished and begun is None:
        return None
    return Slot(time_s=moment.time_s, role="assistant", kind="progress", moment=moment, begun=begun)


def _with_spans(slots: Sequence[Slot], course: Course) -> list[Slot]:
    """Return the slots with reply spans: from a completion to the next start, or to the assistant's next turn."""
    starts = {moment.time_s for moment in course.moments if moment.started}
    following = dict(pairwise(sorted(starts | {slot.time_s for slot in slots})))
    has_span = {slot.time_s for slot in slots if slot.kind == "progress" and not slot.moment.open}
    return [replace(one, end_s=following.get(one.time_s)) if one.time_s in has_span else one for one in slots]


def _ask(sample: Sample, slots: Sequence[Slot], course: Course, count: int, rng: random.Random) -> Iterator[Slot]:
    """Yield questions and their answers at quiet frames, outside of reply spans."""
    is_quiet, gap = bytearray(b"\1") * sample.num_frames, QUIET_S * sample.fps

    def occupy(start_s: float, end_s: float) -> None:
        first = max(0, int(start_s * sample.fps - gap) + 1)
        end = max(first, min(sample.num_frames, math.ceil(end_s * sample.fps + gap)))
        is_quiet[first:end] = bytes(end - first)

    times = [(slot.time_s, slot.end_s) for slot in slots] + [(moment.time_s, None) for moment in course.moments]
    for start_s, end_s in times:
        occupy(start_s, end_s or start_s)
    frames = [frame for frame in range(sample.num_frames) if is_quiet[frame]]
    rng.shuffle(frames)
    for frame in frames:
        if count and is_quiet[frame]:
            count -= 1
            time_s = frame / sample.fps
            occupy(time_s, time_s)
            question = rng.choice(get_args(Question))
            asked = Slot(time_s=time_s, role="user", kind="question", moment=course.at(frame), question=question)
            yield from (asked, replace(asked, role="assistant"))
