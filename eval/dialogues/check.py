"""Checks of the words of a dialogue: steps, mistakes and times that are not known yet, and steps that do not exist."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from stepscope.engine.dialogue import format_clock, parse_time
from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.dialogues.slots import Moment, Slot, follow_updates

MAX_CHARS: Final = 400
"""Longest text of a slot that a model fills."""
GOAL: Final = ""
"""The goal among the named parts of a text; it is known from the start."""
_GAP: Final = r"[\W_]+"
_CLOCK: Final = re.compile(r"(?<![\d:.])(?:\d{1,2}:)?\d{1,2}:[0-5]\d(?!\d)")
_AT: Final = re.compile(r"\b(?:at|until|after|from|second|by) (\d+(?:\.\d+)?) ?(?:s|sec|seconds)\b", re.IGNORECASE)
_DURATION: Final = re.compile(r"\b\d+(?:\.\d+)? ?(?:s|secs?|seconds?|min|minutes?|ms|frames?)\b", re.IGNORECASE)
_STEP_NUMBER: Final = re.compile(r"\bsteps? (?:no\. ?|number )?(\d+)\b", re.IGNORECASE)
_LEFT: Final = re.compile(r"\bhow many steps\b.*\b(?:left|still|remain)", re.IGNORECASE)
_COUNTS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER: Final = re.compile(rf"\b(?:\d+|{'|'.join(_COUNTS)})\b", re.IGNORECASE)
_OPENING_NUMBER: Final = re.compile(rf"\b(\d+|{'|'.join(_COUNTS)}) steps?\b", re.IGNORECASE)


class NamedParts:
    """The names of a sample's steps, goal and mistakes, found in texts whatever their case and punctuation.

    The longest name counts: in ``stir the soup`` a step ``stir`` is not named.
    """

    def __init__(self, sample: Sample) -> None:
        self._ids: dict[str, set[str]] = {}
        named = [(sample.goal, GOAL), *((step.name, step.id) for step in sample.steps)]
        named += [(turn.cause, turn.cause) for turn in sample.turns if turn.role == "update" and turn.cause]
        for name, part in named:
            self._ids.setdefault(_normalize(name), set()).add(part)
        names = sorted(filter(None, self._ids), key=len, reverse=True)
        forms = "|".join(_GAP.join(map(re.escape, name.split())) for name in names)
        self._pattern = re.compile(rf"(?<!\w)(?:{forms})(?!\w)", re.IGNORECASE) if names else None

    def find(self, text: str) -> tuple[list[set[str]], str]:
        """Return the parts of each name in a text, several if they share it, and the text without the names."""
        if self._pattern is None:
            return [], text
        spaced = text.replace("_", " ")
        found = [self._ids[_normalize(match[0])] for match in self._pattern.finditer(spaced)]
        return found, self._pattern.sub("…", spaced)


def _normalize(name: str) -> str:
    return " ".join(re.sub(_GAP, " ", name).split()).lower()


def find_problem(text: str, slot: Slot, names: NamedParts) -> str:
    """Return why a text does not fit its slot; empty if it does."""
    if not text.strip() or len(text) > MAX_CHARS or "\n" in text.strip():
        return f"must be one line of 1 to {MAX_CHARS} characters"
    named, rest = names.find(text)
    if any(not parts & {GOAL, *slot.known} for parts in named):
        return "must not name a step or mistake that its facts do not name"
    if _CLOCK.search(rest) or _DURATION.search(rest):
        return "must not name a time"
    missing = [step.name for step in slot.required if not any(step.id in parts for parts in named)]
    if missing:
        return f"must contain the words {missing[0]!r}"
    numbers = {_read_number(found) for found in _NUMBER.findall(rest)}
    if slot.number and slot.number not in numbers:
        return f"must contain the number {slot.number}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A text that says what is not known, or wrong."""

    video_id: str
    time_s: float
    text: str
    problem: str

    def __str__(self) -> str:
        """Return the finding in one line."""
        return f"{self.video_id} at {format_clock(self.time_s, digits=1)}: {self.problem}: {self.text[:120]!r}"


def check_dialogue(sample: Sample) -> Iterator[Finding]:
    """Yield what the assistant's turns of a sample should not say.

    A step may be named from the frame at which it can start: the one before it in the recipe, or its predecessors in
    the graph, are completed. Without updates nothing is known about steps, so that these are not checked.
    """
    names, moments = NamedParts(sample), list(follow_updates(sample))
    frames = [frame for frame, _, _ in moments]
    early = _describe_parts(sample)
    has_updates = len(moments) > 1
    asked: Turn | None = None
    for turn in sample.turns:
        if turn.role == "user":
            asked = turn
        if turn.role != "assistant":
            continue
        frame = frame_at(turn.time_s, sample.fps)
        moment = moments[bisect_right(frames, frame) - 1][1]
        named, rest = names.find(turn.text)
        is_answer = asked is not None and frame_at(asked.time_s, sample.fps) == frame and _LEFT.search(asked.text)
        problems = [early[min(parts)] for parts in named if has_updates and not parts & {GOAL, *moment.known}]
        problems += _find_numbers(rest, sample, turn, moment if is_answer and has_updates else None)
        for problem in dict.fromkeys(problems):
            yield Finding(video_id=sample.video_id, time_s=turn.time_s, text=turn.text, problem=problem)


def _find_numbers(text: str, sample: Sample, turn: Turn, asked: Moment | None) -> Iterator[str]:
    """Yield the problems of a text without names: numbers of steps, later times, and a wrong answer at ``asked``."""
    for number in map(int, _STEP_NUMBER.findall(text)):
        if sample.steps and not 1 <= number <= len(sample.steps):
            yield f"names step {number} of {len(sample.steps)}"
    start_s = sample.start_s or 0.0
    times = [*map(parse_time, _CLOCK.findall(text)), *map(float, _AT.findall(text))]
    for time_s in times:
        if turn.time_s + 1 / sample.fps < time_s <= sample.num_frames / sample.fps or (
            start_s + turn.time_s < time_s - 1 / sample.fps <= start_s + sample.num_frames / sample.fps
        ):
            yield f"names the later time {time_s:g} s"
    found = _OPENING_NUMBER.search(text)
    if asked is not None and found and _read_number(found[1]) != asked.num_left:
        yield f"answers with another number than the {asked.num_left} steps that are left"


def _describe_parts(sample: Sample) -> dict[str, str]:
    """Return, for each step and mistake, the problem of naming it early."""
    starts = {turn.text: turn.time_s for turn in reversed(sample.turns) if turn.role == "update"}
    described = dict[str, str]()
    for step in sample.steps:
        time_s = starts.get(f"{step.id}->start")
        when = "which never starts" if time_s is None else f"which starts at {format_clock(time_s, digits=1)}"
        described[step.id] = f"names {step.id} too early, {when}"
    causes = [turn.cause for turn in sample.turns if turn.role == "update" and turn.cause]
    return {**{cause: f"names the later mistake {cause!r}" for cause in causes}, **described}


def _read_number(text: str) -> int:
    return _COUNTS.index(text.lower()) if text.lower() in _COUNTS else int(text)
