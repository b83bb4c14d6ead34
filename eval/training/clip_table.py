"""The table of the clips of a training split: their counts, and the problems of those that cannot be used."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.engine.plurals import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipRow:
    """One row of the table of clips."""

    video_id: str
    frames: int = 0
    minutes: float = math.nan
    responses: int = 0
    updates: int = 0
    user_turns: int = 0
    turns_per_minute: float = math.nan
    """Responses and updates per minute."""
    speaking_rate: float = math.nan
    """Fraction of frames with a response; likewise ``update_rate``."""
    update_rate: float = math.nan
    steps: int = 0
    steps_never_seen: int = 0
    """Steps that no update of the clip names."""
    contexts: int = 0
    """Contexts that the clip is split into, as a stream refreshes."""
    longest_context: int = 0
    """Tokens of the longest one."""
    problem: str = ""
    """The reason why the clip cannot be used, or the parts that it lacks."""
    is_used: bool = True


def summarize(rows: Sequence[ClipRow]) -> list[str]:
    """Return the sums of a table as lines of text."""
    used = [row for row in rows if row.is_used]
    if not used:
        return [f"0 of {format_count(len(rows), 'clip')} can be used"]
    frames, minutes = sum(row.frames for row in used), sum(row.minutes for row in used)
    speaking = sum(row.speaking_rate * row.frames for row in used)
    updating = sum(row.update_rate * row.frames for row in used)
    turns = sum(row.responses + row.updates for row in used)
    unseen, steps = sum(row.steps_never_seen for row in used), sum(row.steps for row in used)
    contexts, longest = sum(row.contexts for row in used), max((row.longest_context for row in used), default=0)
    return [
        f"{len(used)} of {format_count(len(rows), 'clip')}, {format_count(frames, 'frame')}, {minutes:.1f} minutes",
        f"{turns / max(minutes, 1e-9):.1f} responses and updates per minute; {_balance(speaking, frames)} speak, "
        f"{_balance(updating, frames)} update",
        f"{unseen} of {format_count(steps, 'step')} without an update",
        f"{format_count(contexts, 'context')}, the longest of {longest} tokens",
    ]


def _balance(positive: float, frames: int) -> str:
    return f"1 of {frames / positive:.0f} frames" if positive else "no frames"
