"""Checks of the words of a dialogue: steps, mistakes and times that are not known yet, and steps that do not exist."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from stepscope.engine.dialogue import format_clock, parse_time
from stepscope.engine.plurals import format_count
from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.dialogues.slots import Slot, follow_updates

MAX_CHARS: Final = 400
"""Longest text of a slot that a model fills, beside the names that it must contain."""
GOAL: Final = ""
"""The goal among the named parts of a text; it is known from the start."""
_WORD: Final = re.compile(r"[^\W_]+")
_CLOCK: Final = re.compile(r"(?<![\d:.])(?:[0-9]{1,2}:[0-5][0-9]|[0-9]{1,3}):[0-5][0-9](?!\d|:\d)")
_SECONDS: Final = r"([0-9]+(?:\.[0-9]+)?) ?(?:s|secs?|seconds?)\b"
_AT: Final = re.compile(rf"\b(?:at|until|after|from|by) {_SECONDS}", re.IGNORECASE)
_DURATION: Final = re.compile(rf"\b{_SECONDS}|[0-9] ?(?:min|minutes?|ms|frames?)\b", re.IGNORECASE)
_STEP_NUMBER: Final = re.compile(r"\bsteps? (?:no\. ?|number )?([0-9]{1,6})\b", re.IGNORECASE)
_ASKED_LEFT: Final = re.compile(r"\bhow many steps\b.*\b(?:left|still|remain)", re.IGNORECASE)
_COUNTS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUM_STEPS: Final = re.compile(rf"\b([0-9]{{1,6}}|{'|'.join(_COUNTS)}) (?:more )?steps?\b", re.IGNORECASE)


class NamedParts:
    """The names of a sample's steps, goal and mistakes, found in texts whatever their case and punctuation.

    The longest name counts: in ``stir the soup`` a step ``stir`` is not named.
    """

    def __init__(self, sample: Sample) -> None:
        """Follow the updates of the sample, which give the frame from which on each part is known."""
        self.course = follow_updates(sample)
        self._known_at = {**self.course.known_at, GOAL: -1}
        self._parts: dict[str, set[str]] = {}
        named = [(sample.goal, GOAL), *((step.name, step.id) for step in sample.steps)]
        named += [(turn.cause, turn.cause) for turn in sample.turns if turn.role == "update" and turn.cause]
        for name, part in named:
            self._parts.setdefault(" ".join(_WORD.findall(name.lower())), set()).add(part)
        self._lengths = sorted({len(name.split()) for name in self._parts if name}, reverse=True)

    def find(self, text: str) -> tuple[list[set[str]], str]:
        """Return the parts that each name in a text may mean, and the text without the names."""
        words = list(_WORD.finditer(text))
        keys = [word[0].lower() for word in words]
        named, rest = list[set[str]](), list[str]()
        first = end = 0
        while first < len(words):
            sizes = (size for size in self._lengths if " ".join(keys[first : first + size]) in self._parts)
            if size := next(sizes, 0):
                named.append(self._parts[" ".join(keys[first : first + size])])
                rest.append(text[end : words[first].start()])
                end = words[min(first + size, len(words)) - 1].end()
            first += size or 1
        return named, "…".join([*rest, text[end:]])

    def find_early(self, named: Sequence[set[str]], frame: int) -> list[set[str]]:
        """Return the parts among those of a text that are not known at a frame."""
        return [parts for parts in named if min(self._known_at.get(part, math.inf) for part in parts) > frame]


def find_problem(text: str, slot: Slot, names: NamedParts) -> str:
    """Return why a text does not fit its slot, as the end of a sentence; empty if it does."""
    max_chars = MAX_CHARS + sum(len(step.name) for step in slot.required)
    if not text.strip() or len(text) > max_chars or "\n" in text.strip():
        return f"must be one line of 1 to {max_chars} characters"
    named, rest = names.find(text)
    done_at, frame = names.course.done_at, slot.moment.frame
    is_undone = slot.question == "done" and any(min(done_at.get(one, -1) for one in parts) > frame for parts in named)
    if is_undone or names.find_early(named, frame):
        return "must not name a step or mistake that its facts do not name"
    if _CLOCK.search(rest) or _DURATION.search(rest):
        return "must not name a time"
    for step in slot.required:
        if not any(step.id in parts for parts in named):
            return f"must contain the words {step.name!r}"
    left = slot.moment.num_left
    if slot.question == "left" and slot.role == "assistant" and left and _read_counts(rest) != {left}:
        return f"must contain the words '{format_count(left, 'step')}'"
    return ""


def check_dialogue(sample: Sample) -> Iterator[str]:
    """Yield a line for each problem of what the assistant says in a sample.

    A step may be named from the frame at which it can start: the one before it in the recipe, or its predecessors in
    the graph, are completed. Without updates nothing is known about steps, so that these are not checked.
    """
    names, asked = NamedParts(sample), dict[int, str]()
    for turn in sample.turns:
        frame = frame_at(turn.time_s, sample.fps)
        if turn.role == "user":
            asked[frame] = turn.text
        if turn.role != "assistant":
            continue
        named, rest = names.find(turn.text)
        problems = list(_find_impossible(rest, sample, turn))
        if len(names.course.moments) > 1:
            problems += [f"names {' or '.join(sorted(one))} too early" for one in names.find_early(named, frame)]
            num_left = names.course.at(frame).num_left
            if _ASKED_LEFT.search(asked.get(frame, "")) and _read_counts(rest) - {num_left}:
                problems.append(f"answers with another number than the {num_left} steps that are left")
        for problem in dict.fromkeys(problems):
            yield f"{sample.video_id} at {format_clock(turn.time_s, digits=1)}: {problem}: {turn.text[:120]!r}"


def _find_impossible(text: str, sample: Sample, turn: Turn) -> Iterator[str]:
    """Yield the numbers of steps that do not exist, and the later times of clip or whole video, in a nameless text."""
    for number in map(int, _STEP_NUMBER.findall(text)):
        if sample.steps and not 1 <= number <= len(sample.steps):
            yield f"names step {number} of {len(sample.steps)}"
    for time_s in [*map(parse_time, _CLOCK.findall(text)), *map(float, _AT.findall(text))]:
        after_s = [time_s - turn.time_s - start_s for start_s in (0.0, sample.start_s or 0.0)]
        if any(1 / sample.fps < one <= sample.num_frames / sample.fps - turn.time_s for one in after_s):
            yield f"names the later time {time_s:g} s"


def _read_counts(text: str) -> set[int]:
    """Return the numbers of steps that a text states: ``Two steps are left`` gives 2."""
    words = map(str.lower, _NUM_STEPS.findall(text))
    return {_COUNTS.index(word) if word in _COUNTS else int(word) for word in words}
