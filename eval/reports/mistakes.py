"""The mistakes of a video, each in a sentence: the failures of one moment that have one cause.

A sentence says only what the data holds: names of steps, messages, and causes of the manifest.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from stepscope.engine.control.task import Task
from stepscope.engine.dialogue import TRANSITIONS, Update, format_clock, parse_update
from stepscope.engine.plurals import format_count
from stepscope.engine.records import FrameOutput, UserTurn, frame_at
from stepscope.eval.data.samples import Sample, build_task
from stepscope.eval.metrics.failures import LATE_S
from stepscope.eval.metrics.matched_video import Failure, JudgedTurn, JudgedVideo

CAUSES: Final = {
    "drop": "A part falls and is picked up again.",
    "decoy": "The hand takes a part that is not needed.",
    "hover": "A hand stays over a part and takes nothing.",
    "swap": "Two neighbouring steps are done in the other order.",
    "light": "The light is dim, or fails for seconds.",
    "noise": "The picture is noisy, or worse for seconds.",
}
"""What happens in the video, by the cause of a reference turn."""
MAX_QUOTE: Final = 120
"""Longer names and messages are cut in a sentence."""
MAX_NAMES: Final = 3
"""More steps with a wrong state are counted, not named."""
MAX_OPEN: Final = 20
"""A failure is compared with so many mistakes before it."""
_EDGES: Final = {"start": "start", "complete": "end"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """Failures with one cause: one output of the model, or its silence.

    Failures at one frame are one mistake. A later frame is added to it in three cases:

    - Within ``LATE_S`` of its first frame, an output without a reference and a missed turn complete each other: the
      model said "stack the block" at 22.5 s and should have said "put it back" at 22.0 s.
    - A late turn is added to the wrong state that began at the time of its reference turn.
    - A wrong state is added that continues one of the mistake, with no further step, at a frame without other failures.
    """

    failures: tuple[int, ...]
    """Positions in ``JudgedVideo.failures``, ascending; at least one."""
    cause: str | None
    """The cause of its first failure that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MistakeText:
    """A mistake in sentences, each empty if there is nothing to say."""

    scene: str
    """What happens in the video, by the cause: “The hand takes a part that is not needed.”"""
    act: str
    """What the assistant did, and should have done."""
    states: str
    """Which states of steps are wrong, and until when."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.scene, self.act, self.states)))


def find_mistakes(judged: JudgedVideo, sample: Sample) -> tuple[Mistake, ...]:
    """Return the mistakes of a video by time: each failure is of exactly one."""
    groups = list[list[Failure]]()
    for _, at_frame in groupby(judged.failures, key=lambda failure: failure.frame_index):
        added = list(at_frame)
        near = (group for group in reversed(groups[-MAX_OPEN:]) if _continues(added, group, judged, sample))
        if (home := next(near, None)) is None:
            groups.append(added)
        else:
            home += added
    numbers = {id(failure): number for number, failure in enumerate(judged.failures)}
    return tuple(
        Mistake(
            failures=tuple(numbers[id(failure)] for failure in group),
            cause=next(filter(None, (find_cause(failure, sample) for failure in group)), None),
        )
        for group in groups
    )


def _continues(added: Sequence[Failure], group: Sequence[Failure], judged: JudgedVideo, sample: Sample) -> bool:
    """Return whether the failures of a later frame belong to a mistake; see ``Mistake``."""
    frame, first = added[0].frame_index, group[0].frame_index
    states = [failure for failure in group if failure.kind == "wrong state"]
    if all(failure.kind == "wrong state" for failure in added):
        return any(state.end_frame == frame and {*added[0].step_ids} <= {*state.step_ids} for state in states)
    late = [f for f in _turns(added) if f.reference is not None and (judged.turns[f.turn or 0].delay_s or 0) > 0]
    due = {frame_at(sample.turns[failure.reference or 0].time_s, sample.fps) for failure in late}
    if not _turns(group) and due & {state.frame_index for state in states}:
        return True
    sides = sorted(((_turns(one), _missed(one)) for one in (added, group)), key=lambda side: len(side[1]))
    (spoken, none), (silent, missed) = sides
    is_near = frame - first <= int(LATE_S * sample.fps + 1e-9)
    return bool(is_near and missed and not none and not silent and any(turn.reference is None for turn in spoken))


def _turns(failures: Iterable[Failure]) -> list[Failure]:
    return [failure for failure in failures if failure.turn is not None]


def _missed(failures: Iterable[Failure]) -> list[Failure]:
    return [failure for failure in failures if failure.turn is None and failure.reference is not None]


def find_cause(failure: Failure, sample: Sample) -> str | None:
    """Return the cause of the failure's reference turn; without one, that of the nearest turn within ``LATE_S``."""
    if failure.reference is not None:
        return sample.turns[failure.reference].cause
    if failure.turn is None:
        return None
    distances = [
        (abs(turn.time_s - failure.frame_index / sample.fps), turn.cause) for turn in sample.turns if turn.cause
    ]
    return min((near for near in distances if near[0] <= LATE_S), default=(0, None))[1]


def is_unasked(failure: Failure, sample: Sample, task: Task) -> bool:
    """Return whether a missed message answers a user turn of the reference that the run did not have."""
    if failure.kind != "missed" or failure.reference is None:
        return False
    before = [turn for turn in sample.turns[: failure.reference] if turn.role != "update"][-1:]
    return any(t.role == "user" and UserTurn(time_s=t.time_s, text=t.text) not in task.all_user_turns for t in before)


def describe_mistake(
    mistake: Mistake,
    judged: JudgedVideo,
    sample: Sample,
    outputs: Sequence[FrameOutput],
    task: Task,
    *,
    lost: Mapping[int, int] | None = None,
) -> MistakeText:
    """Describe a mistake with the words of the video.

    ``task`` is that of the run, ``lost`` the pairs of cost 0 that its scoring drops: reference turn by turn.

    Example: ``The hand takes a part that is not needed. The assistant took this for the start of “mount the block”, and
    did not say “Put the bun back.” Its state of “mount the block” is wrong until 0:16.0.``
    """
    failures = [judged.failures[number] for number in mistake.failures]
    names, lost = name_steps(task), lost or {}
    states = [failure for failure in failures if failure.kind == "wrong state"]
    missed = [failure for failure in _missed(failures) if failure.reference not in lost.values()]
    acts = _describe_updates(_turns(failures), judged, sample, names, "this" if mistake.cause else "this moment")
    is_instead = any(failure.kind == "missed" for failure in missed)
    acts += [
        _describe_message(failure, judged, sample, is_lost=failure.turn in lost, is_instead=is_instead)
        for failure in _turns(failures)
        if judged.turns[failure.turn or 0].role == "assistant"
    ]
    turns = [sample.turns[failure.reference or 0] for failure in missed]
    if updates := [_name_update(turn.text, names) for turn in turns if turn.role == "update"]:
        acts.append(f"did not note {_join(updates)}")
    acts += [f"did not {_say('say', turn.text)}" for turn in turns if turn.role == "assistant"]
    told = f"The assistant {_join(acts, ', and ')}" if acts else ""
    sentences = [told if told.endswith((".”", "!”", "?”", "…”")) else f"{told}."] if told else []
    if any(is_unasked(failure, sample, task) for failure in missed):
        sentences.append("That answers a user turn that this run did not have.")
    cause = mistake.cause
    return MistakeText(
        scene=CAUSES.get(cause, f"The data names the cause {quote(cause)}.") if cause else "",
        act=" ".join(sentences),
        states=_describe_states(states, judged, sample, outputs, names, is_alone=not acts) if states else "",
    )


def tell_mistakes(judged: JudgedVideo, sample: Sample, outputs: Sequence[FrameOutput]) -> dict[int, str]:
    """Return the mistake of each failure of a video, by its position: the time of its first failure, and sentences."""
    told, task = dict[int, str](), build_task(sample)
    for mistake in find_mistakes(judged, sample):
        first = judged.failures[mistake.failures[0]]
        clock = format_clock(first.frame_index / sample.fps, digits=1)
        text = f"{clock} {describe_mistake(mistake, judged, sample, outputs, task)}"
        told |= dict.fromkeys(mistake.failures, text)
    return told


def _describe_updates(
    failures: Sequence[Failure], judged: JudgedVideo, sample: Sample, names: Mapping[str, str], this: str
) -> list[str]:
    """Return what the updates of the model were, after "The assistant"."""
    acts, taken = list[str](), list[str]()
    for failure in failures:
        turn = judged.turns[failure.turn or 0]
        if turn.role != "update":
            continue
        reference = None if failure.reference is None else sample.turns[failure.reference].text
        when = f", {_format_delay(turn)}" if turn.delay_s else ""
        if turn.outcome == "matched":
            acts.append(f"noted {_name_update(turn.text, names)} {_format_delay(turn)}")
        elif parse_update(turn.text) is None:
            expected = f" for {_name_update(reference, names)}" if reference else ""
            acts.append(f"wrote {quote(turn.text)}{expected}, which is no update of a step")
        elif reference is None:
            taken.append(_name_update(turn.text, names))
        else:
            noted = _name_update(turn.text, names)
            acts.append(f"noted {noted} instead of {_contrast(reference, turn.text, names)}{when}")
    return ([f"took {this} for {_join(taken)}"] if taken else []) + acts


def _describe_message(failure: Failure, judged: JudgedVideo, sample: Sample, *, is_lost: bool, is_instead: bool) -> str:
    """Return what a message of the model was, after "The assistant"."""
    turn = judged.turns[failure.turn or 0]
    said = _say("repeated" if failure.kind == "repeats itself" else "said", turn.text)
    if is_lost:
        return f"{said} in time, but a pair of cost 0 is lost (zero_cost drop)"
    if failure.kind == "early or late":
        return f"{said} {_format_delay(turn)}"
    if failure.reference is not None:
        return f"{said} instead of {quote(sample.turns[failure.reference].text)}"
    return said if is_instead else f"{said} where it should have been silent"


def _describe_states(
    states: Sequence[Failure],
    judged: JudgedVideo,
    sample: Sample,
    outputs: Sequence[FrameOutput],
    names: Mapping[str, str],
    *,
    is_alone: bool,
) -> str:
    """Return which states are wrong and until when, also in later mistakes; alone also what they are."""
    frame = states[0].frame_index
    ends = {step_id: _find_end(step_id, state, judged) for state in states for step_id in state.step_ids}
    ids, end = [*ends], max(ends.values())
    until = "to the end of the run" if end >= len(outputs) else f"until {format_clock(outputs[end].time_s, digits=1)}"
    steps = _join([names[one] for one in ids]) if len(ids) <= MAX_NAMES else format_count(len(ids), "step")
    noun, verb = ("state", "is") if len(ids) == 1 else ("states", "are")
    last = ", the last of them" if min(ends.values()) < end else ""
    wrong = f"Its {noun} of {steps} {verb} wrong{last} {until}."
    if not is_alone:
        return wrong
    turns = [turn for turn in sample.turns if turn.role == "update" and frame_at(turn.time_s, sample.fps) <= frame]
    updates = [update for turn in turns if (update := parse_update(turn.text)) and update.step_id == ids[0]]
    really = TRANSITIONS[updates[-1].transition][1] if updates else sample.initial_state.get(ids[0], "not_started")
    had, has = (state.replace("_", " ") for state in (outputs[frame].dst_state[ids[0]], really))
    return f"The assistant takes {names[ids[0]]} to be {had} when it is {has}. {wrong}"


def _find_end(step_id: str, state: Failure, judged: JudgedVideo) -> int:
    """Return the frame at which a step's state is right again. A failure ends where another step turns wrong, too."""
    end = state.end_frame
    for later in judged.failures:
        if later.kind == "wrong state" and later.frame_index == end and step_id in later.step_ids:
            end = later.end_frame
    return end


def name_steps(task: Task) -> Mapping[str, str]:
    """Return the name of each step in quotes, with its id if two have the name; the id of a step without a name."""
    quoted = {step.id: quote(step.name) if step.name else step.id for step in task.steps}
    counts = {name: [*quoted.values()].count(name) for name in {*quoted.values()}}
    return {step_id: name if counts[name] == 1 else f"{name} ({step_id})" for step_id, name in quoted.items()}


def _name_update(text: str, names: Mapping[str, str]) -> str:
    """Return an update as a noun, such as "the start of “mount the block”"."""
    update = parse_update(text)
    return quote(text) if update is None else f"the {_EDGES[update.transition]} of {_name_step(update, names)}"


def _name_step(update: Update, names: Mapping[str, str]) -> str:
    return names.get(update.step_id, f"{update.step_id} (no step of the task)")


def _contrast(expected: str, written: str, names: Mapping[str, str]) -> str:
    """Return an update after "noted the start of “roof” instead of", such as "“wheel”" or "its end"."""
    update, other = parse_update(expected), parse_update(written)
    if update is None or other is None:
        return _name_update(expected, names)
    if update.transition == other.transition:
        return _name_step(update, names)
    return f"its {_EDGES[update.transition]}" if update.step_id == other.step_id else _name_update(expected, names)


def _format_delay(turn: JudgedTurn) -> str:
    delay_s = turn.delay_s or 0.0
    return f"{abs(delay_s):.3g} s {'early' if delay_s < 0 else 'late'}"


def _say(verb: str, text: str) -> str:
    return f"{verb} {quote(text)}" if text.strip() else {"say": "speak", "said": "spoke"}.get(verb, verb)


def quote(text: str) -> str:
    """Return a text in quotes on one line, cut at ``MAX_QUOTE`` characters."""
    line = " ".join(text.split())
    return f"“{line if len(line) <= MAX_QUOTE else f'{line[: MAX_QUOTE - 1]}…'}”"


def _join(parts: Collection[str], last: str = " and ") -> str:
    *first, end = parts
    return f"{', '.join(first)}{last}{end}" if first else end
