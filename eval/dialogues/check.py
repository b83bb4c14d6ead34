"""Checks of the words of a dialogue: steps, mistakes and times that are not known yet, and steps that do not exist."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from stepscope.engine.dialogue import format_clock, parse_time
from stepscope.engine.records import frame_at
from stepscope.eval.data.samples import Sample, Turn
from stepscope.eval.dialogues.slots import Slot, follow_updates

MAX_CHARS: Final = 400
"""Longest text of a slot that a model fills."""
GOAL: Final = ""
"""The goal among the named parts of a text; it is known from the start."""
_GAP: Final = r"[\W_]+"
_CLOCK: Final = re.compile(r"(?<![\d:.])(?:\d{1,2}:)?\d{1,2}:[0-5]\d(?!\d)")
_AT: Final = re.compile(r"\b(?:at|until|after|from|second|by) (\d+(?:\.\d+)?) ?(?:s|sec|seconds)\b", re.IGNORECASE)
_DURATION: Final = re.compile(r"\b\d+(?:\.\d+)? ?(?:s|secs?|seconds?|min|minutes?|ms|frames?)\b", re.IGNORECASE)
_STEP_NUMBER: Final = re.compile(r"\bsteps? (?:no\. ?|number )?(\d{1,6})\b", re.IGNORECASE)
_ASKED_LEFT: Final = re.compile(r"\bhow many steps\b.*\b(?:left|still|remain)", re.IGNORECASE)
_COUNTS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUM_STEPS: Final = re.compile(rf"\b(\d{{1,6}}|{'|'.join(_COUNTS)}) (?:more )?steps?\b", re.IGNORECASE)


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
        self._pattern = re.compile(rf"(?<![^\W_])(?:{forms})(?![^\W_])", re.IGNORECASE) if names else None

    def find(self, text: str) -> tuple[list[set[str]], str]:
        """Return the parts that each name in a text may mean, and the text without the names."""
        if self._pattern is None:
            return [], text
        return [self._ids[_normalize(name)] for name in self._pattern.findall(text)], self._pattern.sub("…", text)


def _normalize(name: str) -> str:
    return " ".join(re.sub(_GAP, " ", name).split()).lower()


def find_problem(text: str, slot: Slot, names: NamedParts) -> str:
    """Return why a text does not fit its slot, as the end of a sentence; empty if it does."""
    if not text.strip() or len(text) > MAX_CHARS or "\n" in text.strip():
        return f"must be one line of 1 to {MAX_CHARS} characters"
    named, rest = names.find(text)
    if any(not parts & {GOAL, *slot.known} for parts in named):
        return "must not name a step or mistake that its facts do not name"
    if _CLOCK.search(rest) or _DURATION.search(rest):
        return "must not name a time"
    for step in slot.required:
        if not any(step.id in parts for parts in named):
            return f"must contain the words {step.name!r}"
    left = slot.moment.num_left
    if slot.question == "left" and slot.role == "assistant" and left and _read_counts(rest) != {left}:
        return f"must contain the words '{left} step{'s' if left > 1 else ''}'"
    return ""


def check_dialogue(sample: Sample) -> Iterator[str]:
    """Yield a line for each problem of what the assistant says in a sample.

    A step may be named from the frame at which it can start: the one before it in the recipe, or its predecessors in
    the graph, are completed. Without updates nothing is known about steps, so that these are not checked.
    """
    names, moments = NamedParts(sample), list(follow_updates(sample))
    has_updates, asked = len(moments) > 1, dict[int, str]()
    for turn in sample.turns:
        frame = frame_at(turn.time_s, sample.fps)
        if turn.role == "user":
            asked[frame] = turn.text
        if turn.role != "assistant":
            continue
        moment = moments[bisect_right(moments, frame, key=lambda one: one.frame) - 1]
        named, rest = names.find(turn.text)
        problems = list(_find_impossible(rest, sample, turn))
        if has_updates:
            early = [parts for parts in named if not parts & {GOAL, *moment.known}]
            problems += [f"names {' or '.join(sorted(parts))} too early" for parts in early]
            if _ASKED_LEFT.search(asked.get(frame, "")) and _read_counts(rest) - {moment.num_left}:
                problems.append(f"answers with another number than the {moment.num_left} steps that are left")
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
