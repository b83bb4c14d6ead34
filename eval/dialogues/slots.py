"""When a dialogue speaks about a video, and what may be said then: slots without words, from steps and updates alone.

The assistant's slots follow from the updates so far, the recipe and the goal, never from later updates: a dialogue
over the first minute of a video begins that over the whole. Only times need the future: reply spans, and the frames of
questions.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final, Literal

from stepscope.engine.dialogue import apply_update, initial_state, parse_update
from stepscope.engine.records import Step, frame_at
from stepscope.eval.data.samples import Sample, Turn, turn_order

Kind = Literal["goal", "opening", "progress", "summary", "question", "answer"]
Question = Literal["next", "done", "left"]
QUESTIONS: Final[tuple[Question, ...]] = ("next", "done", "left")
QUIET_S: Final = 1.5
"""Shortest time between a question and every other turn."""
MAX_LISTED: Final = 3
"""Completed steps that an answer lists; of more it names the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is known after the updates up to a frame."""

    goal: str
    num_steps: int
    completed: tuple[Step, ...]
    """In the order of completion."""
    open: tuple[Step, ...]
    """Steps in progress, in the order of their starts."""
    ready: tuple[Step, ...]
    """Steps that can start now, in the order of the recipe."""
    causes: frozenset[str] = frozenset()
    """Mistakes so far."""

    @property
    def next(self) -> Step | None:
        """The step to do next; None if there is none."""
        return self.ready[0] if self.ready else None

    @property
    def num_left(self) -> int:
        """Steps that are not completed."""
        return self.num_steps - len(self.completed)

    @property
    def known(self) -> frozenset[str]:
        """Ids of the steps that may be named, and the mistakes."""
        return frozenset(step.id for step in (*self.completed, *self.open, *self.ready)) | self.causes


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One turn without its words."""

    time_s: float
    role: Literal["user", "assistant"]
    kind: Kind
    moment: Moment
    end_s: float | None = None
    """End of the reply span; None for an instant."""
    finished: tuple[Step, ...] = ()
    """Steps completed at this frame."""
    mistakes: tuple[tuple[Step, str], ...] = ()
    """Those of them that went wrong, each with its cause."""
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
            return moment.completed if len(moment.completed) <= MAX_LISTED else moment.completed[-1:]
        return (self.begun,) if self.begun is not None else moment.open[-1:] or moment.ready[:1]

    @property
    def number(self) -> int | None:
        """The number that an answer must give; None if it needs none."""
        return self.moment.num_left if self.question == "left" and self.role == "assistant" else None

    @property
    def known(self) -> frozenset[str]:
        """Ids of the steps, and mistakes, that the text may name."""
        if self.question == "done" and self.role == "assistant":
            return frozenset(step.id for step in self.moment.completed)
        return frozenset() if self.role == "user" else self.moment.known


def list_ready(sample: Sample, state: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps that can start: those whose predecessors are completed; without a graph, the next in order."""
    waiting = [step for step in sample.steps if state[step.id] == "not_started"]
    if not sample.after:
        return tuple(waiting[:1])
    return tuple(step for step in waiting if all(state[one] == "completed" for one in sample.after.get(step.id, ())))


def follow_updates(sample: Sample) -> Iterator[tuple[int, Moment, tuple[Turn, ...]]]:
    """Yield frame -1 with the moment before the video, then each frame with updates, its moment, and the updates."""
    names = {step.id: step for step in sample.steps}
    state: Mapping[str, str] = initial_state(sample.steps, sample.initial_state)
    completed = [step for step in sample.steps if state[step.id] == "completed"]
    opened = [step for step in sample.steps if state[step.id] == "in_progress"]
    causes = set[str]()

    def moment() -> Moment:
        return Moment(
            goal=sample.goal,
            num_steps=len(sample.steps),
            completed=tuple(completed),
            open=tuple(opened),
            ready=list_ready(sample, state),
            causes=frozenset(causes),
        )

    yield -1, moment(), ()
    updates = [turn for turn in sample.turns if turn.role == "update"]
    for frame, group in groupby(updates, key=lambda turn: frame_at(turn.time_s, sample.fps)):
        turns = tuple(group)
        for turn in turns:
            update = parse_update(turn.text)
            if update is None or update.step_id not in names:
                continue
            state = apply_update(state, turn.text).state
            step = names[update.step_id]
            for steps in (completed, opened):
                if step in steps:
                    steps.remove(step)
            (opened if update.transition == "start" else completed).append(step)
            causes.update([turn.cause] if turn.cause else [])
        yield frame, moment(), turns


def plan_dialogue(sample: Sample, *, rate: float, num_questions: int | None = None) -> tuple[Slot, ...]:
    """Return the slots of a video in the order of time.

    ``rate`` is the chance of a user's question per step; ``num_questions`` is their number instead. There are fewer if
    the video has too few quiet frames. The result depends on nothing but the sample and the arguments.
    """
    moments = list(follow_updates(sample))
    slots = _open(sample, moments)
    for (_, before, _), (frame, moment, updates) in pairwise(moments):
        if frame > 0 and (slot := _react(sample, before, moment, updates)) is not None:
            slots.append(slot)
    slots = _with_spans(_end(sample, slots, moments[-1][1]), moments, fps=sample.fps)
    rng = random.Random(sample.video_id)
    count = sum(rng.random() < rate for _ in sample.steps) if num_questions is None else num_questions
    slots += _ask(sample, slots, moments, count, rng)
    return tuple(sorted(slots, key=lambda slot: (slot.time_s, slot.role == "assistant")))


def build_turns(sample: Sample, slots: Sequence[Slot], texts: Sequence[str]) -> tuple[Turn, ...]:
    """Return the sample's updates with the dialogue in order; a correction has the cause of its mistake."""
    said = [
        Turn(
            time_s=slot.time_s,
            role=slot.role,
            text=text,
            end_s=slot.end_s,
            cause=slot.mistakes[0][1] if slot.mistakes else None,
        )
        for slot, text in zip(slots, texts, strict=True)
    ]
    return tuple(sorted([turn for turn in sample.turns if turn.role == "update"] + said, key=turn_order))


def _open(sample: Sample, moments: Sequence[tuple[int, Moment, tuple[Turn, ...]]]) -> list[Slot]:
    """Return the goal of the user, and the opening with the first step, which knows the updates of frame 0."""
    first = max((turn.time_s for frame, _, turns in moments if frame == 0 for turn in turns), default=0.0)
    moment = next(moment for frame, moment, _ in reversed(moments) if frame <= 0)
    goal = [Slot(time_s=0.0, role="user", kind="goal", moment=moment)] if sample.goal.strip() else []
    return [*goal, Slot(time_s=first, role="assistant", kind="opening", moment=moment)]


def _react(sample: Sample, before: Moment, moment: Moment, updates: Sequence[Turn]) -> Slot | None:
    """Return what the assistant says at a frame with updates; None if a step starts that it named already."""
    names = {step.id: step for step in sample.steps}
    finished, mistakes, begun = list[Step](), list[tuple[Step, str]](), None
    for turn in updates:
        update = parse_update(turn.text)
        if update is None or update.step_id not in names:
            continue
        step = names[update.step_id]
        if update.transition == "start":
            is_named = step == before.next and not before.open  # when the step before it was completed
            begun = begun if is_named or step not in moment.open else step
        else:
            finished.append(step)
            mistakes += [(step, turn.cause)] if turn.cause else []
    if not finished and begun is None:
        return None
    return Slot(
        time_s=updates[-1].time_s,
        role="assistant",
        kind="progress",
        moment=moment,
        finished=tuple(finished),
        mistakes=tuple(mistakes),
        begun=begun,
        is_last=not moment.num_left,
    )


def _end(sample: Sample, slots: list[Slot], moment: Moment) -> list[Slot]:
    """Return the slots with a summary: where the last step is completed, else at the last frame."""
    last, last_s = slots[-1], (sample.num_frames - 1) / sample.fps
    if last.is_last:
        return slots
    if frame_at(last.time_s, sample.fps) == sample.num_frames - 1:
        return [*slots[:-1], replace(last, is_last=True)]
    return [*slots, Slot(time_s=last_s, role="assistant", kind="summary", moment=moment, is_last=True)]


def _with_spans(
    slots: Sequence[Slot], moments: Sequence[tuple[int, Moment, tuple[Turn, ...]]], *, fps: float
) -> list[Slot]:
    """Return the slots with reply spans: from a completion to the next start, or to the assistant's next turn."""
    starts = [turn.time_s for _, _, turns in moments for turn in turns if turn.text.endswith("start")]
    stops = sorted({*starts, *(slot.time_s for slot in slots)})
    spanned = list[Slot]()
    position = 0
    for slot in slots:
        while position < len(stops) and frame_at(stops[position], fps) <= frame_at(slot.time_s, fps):
            position += 1
        has_span = slot.finished and not slot.moment.open and position < len(stops)
        spanned.append(replace(slot, end_s=stops[position]) if has_span else slot)
    return spanned


def _ask(
    sample: Sample,
    slots: Sequence[Slot],
    moments: Sequence[tuple[int, Moment, tuple[Turn, ...]]],
    count: int,
    rng: random.Random,
) -> list[Slot]:
    """Return questions with their answers at quiet frames, outside of reply spans."""
    busy = [(slot.time_s, slot.end_s or slot.time_s) for slot in slots]
    busy += [(turn.time_s, turn.time_s) for _, _, turns in moments for turn in turns]
    is_quiet, gap = bytearray(b"\1") * sample.num_frames, QUIET_S * sample.fps

    def occupy(start_s: float, end_s: float) -> None:
        first = max(0, int(start_s * sample.fps - gap) + 1)
        end = max(first, min(sample.num_frames, int(-(-(end_s * sample.fps + gap) // 1))))
        is_quiet[first:end] = bytes(end - first)

    for start_s, end_s in busy:
        occupy(start_s, end_s)
    frames = [frame for frame in range(sample.num_frames) if is_quiet[frame]]
    rng.shuffle(frames)
    asked = list[Slot]()
    for frame in frames:
        if len(asked) >= 2 * count:
            break
        if not is_quiet[frame]:
            continue
        time_s = frame / sample.fps
        occupy(time_s, time_s)
        moment = next(moment for at, moment, _ in reversed(moments) if at <= frame)
        question = QUESTIONS[rng.randrange(len(QUESTIONS))]
        asked.append(Slot(time_s=time_s, role="user", kind="question", moment=moment, question=question))
        asked.append(Slot(time_s=time_s, role="assistant", kind="answer", moment=moment, question=question))
    return asked
